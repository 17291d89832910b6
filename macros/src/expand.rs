//! Expands `#[sandbox]` and `#[container]` to the struct and its implementation of `SandboxClass` or `ContainerClass`, or
//! to errors.

use koze_model::{Diagnostic, Kind, Level, Names, Report, Rule, Sandbox, syntax};
use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::{Item, ItemStruct, Visibility, parse_quote};

use crate::source::Source;

pub(crate) fn declare(kind: Kind, attribute: &TokenStream, item: TokenStream) -> TokenStream {
    let Ok(parsed) = syn::parse2::<Item>(item.clone()) else {
        // rustc reports what is not an item.
        return item;
    };
    let mut report = Report::new();
    let Item::Struct(item) = parsed else {
        syntax::not_a_struct(&parsed, kind, &mut report);
        let errors = errors(&report);
        return quote!(#errors #item);
    };

    let source = Source::of(Span::call_site());
    let fallback = Names::of_class(kind, &item.ident.to_string());
    let (file, names) = match &source {
        Some(source) => (source.name.clone(), Names::of_file(&source.name).map_err(Rule::from)),
        None => (String::new(), Ok(fallback.clone())),
    };
    let exists = |path: &str| source.as_ref().is_none_or(|source| source.exists(path));
    let sandbox = Sandbox::check(&file, &item, attribute, kind, names, &exists, &mut report);
    if let Some(rule) = source.as_ref().and_then(|source| source.misplaced(kind, &item.ident)) {
        report.add(rule, item.ident.span());
    }

    // Emit the struct and its implementation even after an error, so that no further errors follow from it.
    let (names, container) = match &sandbox {
        Some(sandbox) => (&sandbox.names, sandbox.container()),
        None => (&fallback, fallback.container.as_str()),
    };
    let errors = errors(&report);
    if item.attrs.iter().any(|attribute| syntax::declares(attribute, kind)) {
        // The attribute is there twice: the other one implements the trait.
        return quote!(#errors #item);
    }
    let class = implement(item, names, container, &file);
    quote!(#errors #class)
}

fn implement(mut item: ItemStruct, names: &Names, container: &str, file: &str) -> TokenStream {
    if !matches!(item.vis, Visibility::Public(_)) {
        item.vis = parse_quote!(pub(crate));
    }
    if !item.attrs.iter().any(|attribute| attribute.path().is_ident("doc")) {
        let text = format!("The {} `{container}`, bound as `{}`.", names.kind, names.binding);
        item.attrs.push(parse_quote!(#[doc = #text]));
    }
    let (ident, binding) = (&item.ident, &names.binding);
    let class = ident.to_string();
    let class_trait = match names.kind {
        Kind::Sandbox => quote!(SandboxClass),
        Kind::Container => quote!(ContainerClass),
    };
    let (impl_generics, type_generics, where_clause) = item.generics.split_for_impl();
    quote! {
        #item

        #[automatically_derived]
        impl #impl_generics ::koze::__private::#class_trait for #ident #type_generics #where_clause {
            const BINDING: &'static str = #binding;
            const CLASS: &'static str = #class;
            const CONTAINER: &'static str = #container;
            const SOURCE: &'static str = #file;
        }
    }
}

/// Emits the errors for rustc. The command line reports the warnings, because a stable macro cannot.
fn errors(report: &Report) -> TokenStream {
    report.iter().filter(|found| found.rule.level() == Level::Error).map(error).collect()
}

fn error(diagnostic: &Diagnostic) -> TokenStream {
    let span = diagnostic.at.span.unwrap_or_else(Span::call_site);
    let text = diagnostic.to_string();
    quote_spanned!(span => ::core::compile_error! { #text })
}
