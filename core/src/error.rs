//! Errors of tool calls and of operations on sandboxes.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The kind of an error. Every tool family, provider and protocol uses the same codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Code {
    /// The input does not match the tool's schema, or a value in it is not valid.
    InvalidInput,
    /// There is no tool with this name.
    UnknownTool,
    /// A file, directory, program or sandbox does not exist.
    NotFound,
    /// Something already exists and must not be replaced.
    AlreadyExists,
    /// The path is a directory, but the operation needs a file.
    IsDirectory,
    /// The path is not a directory, but the operation needs one.
    NotADirectory,
    /// The sandbox's user is not permitted to do this.
    PermissionDenied,
    /// The path leads outside the root that it is confined to.
    PathEscape,
    /// The text to replace does not occur, or occurs more than once.
    EditConflict,
    /// Something exceeds a size limit.
    TooLarge,
    /// The content is binary, but the operation needs text.
    Binary,
    /// The operation timed out.
    Timeout,
    /// The provider, or its version of the SDK or guest, does not support this.
    Unsupported,
    /// Not possible now, but a retry may succeed: a limit is reached, or the sandbox does not answer.
    Unavailable,
    /// A bug in koze, or a failure of the platform below it.
    Internal,
}

impl Code {
    /// Returns the code as text, such as `not_found`.
    pub fn as_str(self) -> &'static str {
        match self {
            Code::InvalidInput => "invalid_input",
            Code::UnknownTool => "unknown_tool",
            Code::NotFound => "not_found",
            Code::AlreadyExists => "already_exists",
            Code::IsDirectory => "is_directory",
            Code::NotADirectory => "not_a_directory",
            Code::PermissionDenied => "permission_denied",
            Code::PathEscape => "path_escape",
            Code::EditConflict => "edit_conflict",
            Code::TooLarge => "too_large",
            Code::Binary => "binary",
            Code::Timeout => "timeout",
            Code::Unsupported => "unsupported",
            Code::Unavailable => "unavailable",
            Code::Internal => "internal",
        }
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

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
