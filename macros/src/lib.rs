//! `#[sandbox]`: a thin expansion over `koze-model`. Use it through the `koze` crate.

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
    expand::sandbox(&attribute.into(), item.into()).into()
}
