//! The agent family: eight tools over the sandboxes of a session.

mod browse;
mod files;
mod glob;
mod sandboxes;
mod shell;
mod transfer;

use serde_json::Value;

use super::dialect::Definition;
use super::{Reply, Tool, ToolResult, call, unknown_tool};
use crate::error::Result;
use crate::pool::{Images, Pool};
use crate::provider::Provider;

pub use browse::Browse;
pub(in crate::tool) use files::cut;
#[cfg(test)]
pub(in crate::tool) use files::part;
pub use files::{Encoding, ReadFile, WriteFile};
pub use glob::Glob;
pub use sandboxes::{SandboxCreate, SandboxList};
pub use shell::Shell;
pub use transfer::Transfer;

/// The sandbox a tool works on where the model names none.
pub const DEFAULT: &str = "default";

fn default_sandbox() -> String {
    DEFAULT.to_owned()
}

/// Writes what there is of a family from one list of tools.
macro_rules! family {
    ($($tool:ident),* $(,)?) => {
        /// The definitions of the tools, in the order in which a model should read them; `images` are what
        /// `sandbox_create` may name.
        pub fn definitions(images: &Images) -> Vec<Definition> {
            let mut definitions = vec![$(Definition::of::<$tool>()),*];
            sandboxes::name_images(&mut definitions, images);
            definitions
        }

        /// The tools, each with the name of its Rust type: what `koze build` writes calls from.
        #[doc(hidden)]
        pub const TYPES: &[(&str, &str)] = &[$(($tool::NAME, stringify!($tool))),*];

        /// Calls the tool of this name. What a model wrote is data, whatever it looks like.
        pub async fn call_tool<P: Provider>(pool: &Pool<P>, name: &str, input: Value) -> ToolResult {
            reply(pool, name, input).await.into()
        }

        /// The same, before it is made a text.
        ///
        /// # Errors
        /// [`Code::UnknownTool`](crate::Code::UnknownTool), and those of the tool.
        pub async fn reply<P: Provider>(pool: &Pool<P>, name: &str, input: Value) -> Result<Reply> {
            match name {
                $($tool::NAME => call::<$tool, P>(pool, input).await,)*
                _ => Err(unknown_tool(name, &[$($tool::NAME),*])),
            }
        }
    };
}

family!(Shell, ReadFile, WriteFile, Glob, Browse, SandboxCreate, SandboxList, Transfer);
