//! `mod.rs`: a module for every sandbox file, and what they declare.

use koze_model::Sandbox;
use proc_macro2::TokenStream;
use quote::quote;

use super::{ident, rust};

pub(super) fn render(sandboxes: &[Sandbox]) -> String {
    let modules = sandboxes.iter().map(module);
    rust(quote! {
        #![cfg_attr(rustfmt, rustfmt_skip)]
        #![allow(dead_code, unused_imports, unreachable_pub)]
        #![doc = " The sandboxes of this package and the typed [`Env`] of its Worker."]

        #[path = "env.rs"]
        mod __env;
        pub use __env::Env;

        #(#modules)*
    })
}

fn module(sandbox: &Sandbox) -> TokenStream {
    let module = ident(&sandbox.names.module);
    let class = ident(&sandbox.class.value);
    let doc = format!(" The sandbox of `{}`.", sandbox.file);
    // From `src/generated` to a file below `src`.
    let path = format!("../{}", sandbox.file.strip_prefix("src/").unwrap_or(&sandbox.file));
    let vis = visibility(sandbox);
    quote! {
        #[doc = #doc]
        #[path = #path]
        pub mod #module;
        #vis use #module::#class;
    }
}

/// A struct that is not public cannot be made so from outside.
pub(super) fn visibility(sandbox: &Sandbox) -> TokenStream {
    if sandbox.public { quote!(pub) } else { quote!(pub(crate)) }
}
