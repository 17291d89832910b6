//! The tools that agents call, with schemas derived from Rust types. They work with every provider.
//!
//! | module | job |
//! |---|---|
//! | [`agent`] | the family `agent`: twelve tools over a session's sandboxes |
//! | [`thread`] | the family `thread`: seven tools over the directories of a thread |
//! | [`workspace`] | the family `workspace`: tools over the declared workspaces of a session |
//! | `script` | the family `script`: tools that run scripts, and that agents create; with the feature `script` |
//! | `family` | families of tools |
//! | `catalog` | the tools that a server serves together: definitions and calls |
//! | `bound` | tools that are bound to a session or sandbox |
//! | `command` | what the tools that run commands share |
//! | [`dialect`] | definitions in the formats of MCP, Anthropic and OpenAI |
//! | [`instructions`] | what a model is told about its sandboxes before its first call |
//! | [`mcp`] | definitions and results as MCP types |
//! | [`message`] | calls as messages of MCP |
//! | [`process`] | processes that keep running, for models |
//! | `schema` | the JSON schemas of inputs |
//! | `input` | the input of a tool, as JSON that is decoded once; shared parts: ranges, bytes as JSON |
//! | `mask` | masks the values of secrets |

mod adjust;
pub mod agent;
mod bound;
mod catalog;
mod command;
pub mod dialect;
mod family;
mod hints;
pub(crate) mod input;
pub mod instructions;
#[cfg(feature = "script")]
pub(crate) mod mask;
pub mod mcp;
pub mod message;
pub mod process;
pub mod programs;
mod schema;
#[cfg(feature = "script")]
pub mod script;
pub mod thread;
pub mod workspace;

use std::future::Future;

use koze_protocol::words::nearest;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use self::bound::BoundTool;
pub use self::catalog::{Catalog, Families};
pub use self::family::{Family, ToolFamily};
pub use self::input::Input;
use crate::error::{Code, Error, Result};
pub use crate::json::{ReadError, read};
use crate::maybe_send::MaybeSend;
use crate::provider::Provider;
use crate::session::Session;

/// All families of this version of koze.
#[cfg(feature = "script")]
pub type All = (agent::Agent, thread::Thread, workspace::WorkspaceTools, script::Scripts);
/// All families of this version of koze, without `script`, which needs the feature of this name.
#[cfg(not(feature = "script"))]
pub type All = (agent::Agent, thread::Thread, workspace::WorkspaceTools);

/// The result of a tool call, as sent to a model.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "camelCase")]
pub struct ToolResult {
    /// JSON text, plain text, or an error message that starts with its code.
    pub content: String,
    /// Whether it failed.
    pub is_error: bool,
}

/// The reply of a tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Reply {
    /// What a model reads.
    pub content: Content,
    /// Whether it is reported as an error, such as a command with a nonzero exit code.
    pub is_error: bool,
}

/// The media types of pictures that models see.
pub(crate) const PICTURES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];

/// The content of a reply.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Content {
    /// A value, which is sent as JSON.
    Json(Value),
    /// Text, which is sent as it is.
    Text(String),
    /// A value with a picture in its field `image`, as PNG in base64. Models that see pictures get it as one; others get JSON.
    Picture(Value),
    /// A value with a list `outputs` of what code has shown. Models that see pictures get those in it as pictures, and a value
    /// that has a text not as HTML, too; others get JSON.
    Outputs(Value),
}

impl Content {
    /// Returns the text that a model reads.
    fn into_text(self) -> String {
        match self {
            Content::Json(value) | Content::Picture(value) | Content::Outputs(value) => to_json_text(&value),
            Content::Text(text) => text,
        }
    }
}

impl Reply {
    /// Creates a successful reply with a value.
    ///
    /// # Errors
    /// Never for plain data.
    pub fn ok(value: impl Serialize) -> Result<Self> {
        let value = serde_json::to_value(value).map_err(|error| {
            Error::new(Code::Internal, format!("the result cannot be serialized: {error}")).with_source(error)
        })?;
        Ok(Reply { content: Content::Json(value), is_error: false })
    }

    /// Creates a successful reply with plain text.
    pub fn text(text: impl Into<String>) -> Self {
        Reply { content: Content::Text(text.into()), is_error: false }
    }
}

/// What a tool works on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// One sandbox, which the input names. Such a tool can be bound to a sandbox.
    Sandbox,
    /// The session.
    Session,
}

/// A tool.
pub trait Tool {
    /// Its name.
    const NAME: &'static str;
    /// Its description for models.
    const DESCRIPTION: &'static str;
    /// What it works on.
    const SCOPE: Scope = Scope::Sandbox;
    /// Its input. The tests derive its schema, which is committed.
    type Input: DeserializeOwned + MaybeSend;

    /// Returns the reply for an input that does not match the schema. By default, it is the error itself.
    ///
    /// # Errors
    /// The error.
    fn wrong_input(error: Error) -> Result<Reply> {
        Err(error)
    }

    /// Runs it.
    fn call<P: Provider>(
        session: &Session<P>,
        input: Self::Input,
    ) -> impl Future<Output = Result<Reply>> + MaybeSend;
}

/// Validates the input of a tool and calls it.
///
/// # Errors
/// [`Code::InvalidInput`] if the input does not match the schema, and the errors of the tool.
pub async fn call<T: Tool, P: Provider>(session: &Session<P>, input: Input) -> Result<Reply> {
    // The text is dropped before the tool runs.
    let decoded = input.decode();
    drop(input);
    match decoded {
        Ok(input) => T::call(session, input).await,
        Err(error) => T::wrong_input(error),
    }
}

/// Returns the error for an unknown tool.
pub fn unknown_tool(name: &str, names: &[&str]) -> Error {
    let all = names.join(", ");
    let message = match nearest(name, names) {
        _ if names.is_empty() => format!("unknown tool `{name}`: there are no tools"),
        Some(near) => format!("unknown tool `{name}`: did you mean `{near}`? The tools are {all}"),
        None => format!("unknown tool `{name}`: the tools are {all}"),
    };
    Error::new(Code::UnknownTool, message)
}

/// Returns a value as JSON text. Its `Display` writes piece by piece, which is several times slower for a large file.
fn to_json_text(value: &Value) -> String {
    serde_json::to_string(value).expect("a value's keys are texts, and a text takes all that is written")
}

impl From<Result<Reply>> for ToolResult {
    fn from(result: Result<Reply>) -> Self {
        match result {
            Ok(reply) => ToolResult { content: reply.content.into_text(), is_error: reply.is_error },
            Err(error) => ToolResult { content: error.to_string(), is_error: true },
        }
    }
}
