//! Finds the items of a file that declare a sandbox or a container.

use proc_macro2::{Span, TokenStream, TokenTree};
use syn::spanned::Spanned as _;
use syn::visit::{self, Visit};
use syn::{Attribute, Item, Meta};

use crate::kind::Kind;
use crate::report::{Diagnostic, Report};
use crate::rules::Rule;

/// The struct of a file that declares a sandbox or a container, and the tokens of its attribute.
#[derive(Debug)]
pub struct Found<'a> {
    /// The struct.
    pub item: &'a syn::ItemStruct,
    /// The index of the attribute among those of the struct.
    pub attribute: usize,
    /// The tokens between the parentheses.
    pub tokens: TokenStream,
}

/// Returns the first struct at the top level of a file that declares this kind. Adds errors to `report`.
///
/// `class` is the struct that the help suggests if the file has none.
pub fn find<'a>(file: &'a syn::File, kind: Kind, class: &str, report: &mut Report) -> Option<Found<'a>> {
    let mut first: Option<Found<'a>> = None;
    let mut any = false;
    for item in &file.items {
        let Some(attribute) = attributes(item).iter().position(|attribute| declares(attribute, kind)) else {
            any |= conditional(item, kind, report);
            let mut inner = Nested { kind, report, any: &mut any };
            inner.visit_item(item);
            continue;
        };
        any = true;
        let Item::Struct(found) = item else {
            not_a_struct(item, kind, report);
            continue;
        };
        if let Some(first) = &first {
            let rule = Rule::SecondSandbox {
                kind,
                class: found.ident.to_string(),
                first: first.item.ident.to_string(),
            };
            report.push(Diagnostic::new(rule, found.ident.span()).with(
                0,
                Some(first.item.ident.span()),
                "the first one",
            ));
            continue;
        }
        match tokens(&attributes(item)[attribute]) {
            Ok(tokens) => first = Some(Found { item: found, attribute, tokens }),
            Err(error) => report.add(Rule::BadAttribute { message: error.to_string() }, error.span()),
        }
    }
    if !any {
        report.push(Diagnostic::at(Rule::NoSandbox { kind, class: class.to_owned() }, 0, None));
    }
    first
}

/// Reports an attribute in `#[cfg_attr(..)]`, which only rustc can evaluate.
fn conditional(item: &Item, kind: Kind, report: &mut Report) -> bool {
    let Item::Struct(item) = item else { return false };
    let hides =
        |attribute: &&Attribute| attribute.path().is_ident("cfg_attr") && mentions(attribute, kind.word());
    let Some(attribute) = item.attrs.iter().find(hides) else { return false };
    let span = attribute.path().segments[0].ident.span();
    report.add(Rule::Conditional { kind, class: item.ident.to_string() }, span);
    true
}

/// Returns whether an attribute is conditional compilation: `cfg`, or `cfg_attr(.., cfg(..))`.
pub fn is_condition(attribute: &Attribute) -> bool {
    let path = attribute.path();
    path.is_ident("cfg") || (path.is_ident("cfg_attr") && mentions(attribute, "cfg"))
}

/// Returns whether an attribute contains a word among its top-level tokens.
fn mentions(attribute: &Attribute, word: &str) -> bool {
    let Meta::List(list) = &attribute.meta else { return false };
    let is_word = |token: TokenTree| matches!(token, TokenTree::Ident(ident) if ident == word);
    list.tokens.clone().into_iter().any(is_word)
}

/// Reports an item that is not a struct, at its name.
pub fn not_a_struct(item: &Item, kind: Kind, report: &mut Report) {
    let (found, span) = match item {
        Item::Enum(item) => ("an enum", item.ident.span()),
        Item::Fn(item) => ("a function", item.sig.ident.span()),
        Item::Union(item) => ("a union", item.ident.span()),
        Item::Trait(item) => ("a trait", item.ident.span()),
        Item::Type(item) => ("a type alias", item.ident.span()),
        Item::Mod(item) => ("a module", item.ident.span()),
        Item::Const(item) => ("a constant", item.ident.span()),
        Item::Static(item) => ("a static", item.ident.span()),
        Item::Impl(item) => ("an impl", item.impl_token.span),
        Item::Use(item) => ("a use", item.use_token.span),
        other => ("something else", other.span()),
    };
    report.add(Rule::NotAStruct { kind, found: found.to_owned() }, span);
}

/// Returns the span of a parse error. At the end of its input syn has no span: use the last token.
pub fn error_span(error: &syn::Error, tokens: &TokenStream) -> Span {
    let last = tokens.clone().into_iter().last();
    match last {
        Some(last) if error.to_string().starts_with("unexpected end of input") => match last {
            TokenTree::Group(group) => group.span_close(),
            other => other.span(),
        },
        _ => error.span(),
    }
}

/// Returns whether an attribute declares this kind, by name or path.
pub fn declares(attribute: &Attribute, kind: Kind) -> bool {
    let segments = &attribute.path().segments;
    let last = segments.last().is_some_and(|last| last.ident == kind.word());
    last && (segments.len() == 1 || segments[0].ident == "koze")
}

fn tokens(attribute: &Attribute) -> syn::Result<TokenStream> {
    match &attribute.meta {
        Meta::Path(_) => Ok(TokenStream::new()),
        Meta::List(list) => Ok(list.tokens.clone()),
        Meta::NameValue(pair) => Err(syn::Error::new(pair.eq_token.span, "write keys in parentheses")),
    }
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Struct(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Union(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Const(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

/// A visitor that reports declarations below the top level.
struct Nested<'r> {
    kind: Kind,
    report: &'r mut Report,
    any: &'r mut bool,
}

impl<'a> Visit<'a> for Nested<'_> {
    fn visit_item(&mut self, item: &'a Item) {
        let kind = self.kind;
        if attributes(item).iter().any(|attribute| declares(attribute, kind)) {
            *self.any = true;
            match item {
                Item::Struct(item) => {
                    let class = item.ident.to_string();
                    self.report.add(Rule::Nested { kind, class }, item.ident.span());
                }
                other => not_a_struct(other, kind, self.report),
            }
        }
        visit::visit_item(self, item);
    }
}
