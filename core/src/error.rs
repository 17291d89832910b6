//! Errors of tool calls and of operations on sandboxes.

pub use koze_protocol::Code;
use serde::{Deserialize, Serialize};

/// An error of a tool call. Its message states the problem and the remedy. It never contains host paths, secrets or stack
/// traces.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{code}: {message}")]
pub struct Error {
    /// The kind of the error.
    pub code: Code,
    /// One sentence for the model or person that made the call.
    pub message: String,
}

impl Error {
    /// Creates an error.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Error { code, message: message.into() }
    }
}

/// The result of an operation on a sandbox.
pub type Result<T> = std::result::Result<T, Error>;
