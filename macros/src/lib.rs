//! `#[sandbox]` and `#[container]`: a thin expansion over `koze-model`. Use it through the `koze` crate.

use koze_model::Kind;
use proc_macro::TokenStream;

mod expand;
mod source;

/// Declares an isolated Linux sandbox on Cloudflare.
///
/// Put the attribute on the only struct of a `src/**/*.sandbox.rs` file. It implements `koze::SandboxClass` for the
/// struct, with the names that `koze build` writes to the wrangler configuration, and checks the same rules as that
/// command. `#[sandbox]` alone is complete; every key is optional:
///
/// ```text
/// use koze::prelude::*;
///
/// #[sandbox(variant = "python", max_instances = 10, sleep_after = "10m")]
/// pub struct PythonSandbox;
/// ```
///
/// A private struct becomes visible in its crate, because the generated code refers to it.
#[proc_macro_attribute]
pub fn sandbox(attribute: TokenStream, item: TokenStream) -> TokenStream {
    expand::declare(Kind::Sandbox, &attribute.into(), item.into()).into()
}

/// Declares a service in a container on Cloudflare: an image of its own, without tools for agents.
///
/// Put the attribute on the only struct of a `src/**/*.container.rs` file. It implements `koze::ContainerClass` for the
/// struct, with the names that `koze build` writes to the wrangler configuration, and checks the same rules as that
/// command:
///
/// ```text
/// use koze::prelude::*;
///
/// #[container(image = "wordpress:6.8-apache", port = 80)]
/// pub struct WordpressContainer;
/// ```
///
/// A private struct becomes visible in its crate, because the generated code refers to it.
#[proc_macro_attribute]
pub fn container(attribute: TokenStream, item: TokenStream) -> TokenStream {
    expand::declare(Kind::Container, &attribute.into(), item.into()).into()
}
