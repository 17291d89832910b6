//! Tools that agents call: each once, on any provider, with its schema from its Rust types.
//!
//! | module | job |
//! |---|---|
//! | [`agent`] | the eight tools over a session's pool |
//! | `bound` | tools that know what they work on |
//! | [`dialect`] | definitions as MCP, Anthropic and OpenAI write them |
//! | [`mcp`] | the same as values of the protocol |
//! | `input` | what tools have in common: ranges, bytes as JSON |
//! | `read` | the text of an input as a value |

pub mod agent;
mod bound;
pub mod dialect;
mod input;
pub mod mcp;
mod read;

use std::future::Future;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use self::bound::BoundTool;
pub use self::read::{Unread, read};
use crate::error::{Code, Error, Result};
use crate::pool::Pool;
use crate::provider::Provider;
use crate::sandbox::MaybeSend;

/// What a model gets back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolResult {
    /// JSON text, or the error as a sentence that begins with its code.
    pub content: String,
    /// Whether it failed.
    pub is_error: bool,
}

/// What came of a tool: its value, and whether that speaks of a failure.
#[derive(Debug, Clone, PartialEq)]
pub struct Reply {
    /// The value.
    pub value: Value,
    /// Whether it is a failure all the same, as a command that exits with 1.
    pub is_error: bool,
}

impl Reply {
    /// A success.
    ///
    /// # Errors
    /// Never for plain data.
    pub fn ok(value: impl Serialize) -> Result<Self> {
        let value = serde_json::to_value(value)
            .map_err(|error| Error::new(Code::Internal, format!("the result is no JSON: {error}")))?;
        Ok(Reply { value, is_error: false })
    }
}

/// A tool.
pub trait Tool {
    /// What it is called.
    const NAME: &'static str;
    /// What it does, for the model.
    const DESCRIPTION: &'static str;
    /// What it takes.
    type Input: DeserializeOwned + JsonSchema + MaybeSend;

    /// Does it.
    fn call<P: Provider>(
        pool: &Pool<P>,
        input: Self::Input,
    ) -> impl Future<Output = Result<Reply>> + MaybeSend;
}

/// Reads the input as a tool takes it, and calls it.
///
/// # Errors
/// [`Code::InvalidInput`] where the input is not what the tool's schema says, and those of the tool.
pub async fn call<T: Tool, P: Provider>(pool: &Pool<P>, input: Value) -> Result<Reply> {
    // Of a list, serde would take the values in the order of the fields.
    if !input.is_object() {
        return Err(Error::new(Code::InvalidInput, "the input of a tool is a JSON object"));
    }
    let input = serde_path_to_error::deserialize(input).map_err(|error| wrong_input(&error))?;
    T::call(pool, input).await
}

/// What is wrong with an input, and where.
fn wrong_input(error: &serde_path_to_error::Error<serde_json::Error>) -> Error {
    let (field, what) = (format!("`{}`", error.path()), error.inner().to_string());
    let named = field == "`.`" || what.contains(&field);
    Error::new(Code::InvalidInput, if named { what } else { format!("{field}: {what}") })
}

/// The error of a call to a tool that none of these names is.
pub fn unknown_tool(name: &str, names: &[&str]) -> Error {
    let message = match names {
        [] => format!("there is no tool `{name}`, nor any other"),
        _ => format!("there is no tool `{name}`: the tools are {}", names.join(", ")),
    };
    Error::new(Code::UnknownTool, message)
}

/// A value as JSON text. Its `Display` does the same piece by piece, which takes a multiple for a large file.
fn text(value: &Value) -> String {
    serde_json::to_string(value).expect("a value's keys are texts, and a text takes all that is written")
}

impl From<Result<Reply>> for ToolResult {
    fn from(result: Result<Reply>) -> Self {
        match result {
            Ok(reply) => ToolResult { content: text(&reply.value), is_error: reply.is_error },
            Err(error) => ToolResult { content: error.to_string(), is_error: true },
        }
    }
}
