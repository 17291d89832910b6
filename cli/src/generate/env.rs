//! `env.rs`: one typed accessor for every sandbox.

use koze_model::Sandbox;
use proc_macro2::TokenStream;
use quote::quote;

use super::module::visibility;
use super::{ident, rust};

pub(super) fn render(sandboxes: &[Sandbox]) -> String {
    let accessors = sandboxes.iter().map(accessor);
    rust(quote! {
        #![cfg_attr(rustfmt, rustfmt_skip)]
        #![allow(dead_code, unused_imports, unreachable_pub)]
        #![doc = " The bindings of the Worker, typed."]

        /// The bindings of the Worker, typed: made from the [`worker::Env`](::koze::__private::worker::Env) that an
        /// event hands over.
        #[derive(Debug, Clone)]
        pub struct Env(::koze::__private::worker::Env);

        impl Env {
            #(#accessors)*

            /// The untyped bindings.
            #[must_use]
            pub fn inner(&self) -> &::koze::__private::worker::Env {
                &self.0
            }
        }

        impl ::core::convert::From<::koze::__private::worker::Env> for Env {
            fn from(env: ::koze::__private::worker::Env) -> Self {
                Env(env)
            }
        }
    })
}

fn accessor(sandbox: &Sandbox) -> TokenStream {
    let accessor = ident(&sandbox.names.accessor);
    let class = ident(&sandbox.class.value);
    let doc = format!(" The sandboxes of `{}`, bound as `{}`.", sandbox.file, sandbox.names.binding);
    let vis = visibility(sandbox);
    quote! {
        #[doc = #doc]
        #[must_use]
        #vis fn #accessor(&self) -> ::koze::Namespace<super::#class> {
            ::koze::Namespace::new(&self.0)
        }
    }
}
