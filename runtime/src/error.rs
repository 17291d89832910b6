//! What a tool call can end in when it does not end well.

use std::fmt;

use serde::{Deserialize, Serialize};

/// What went wrong, in one word: the same words in every tool family, on every provider, and over every wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Code {
    /// The input is not what the tool's schema says, or a value in it cannot be.
    InvalidInput,
    /// No tool has this name.
    UnknownTool,
    /// A file, directory, program or sandbox is not there.
    NotFound,
    /// Something is there already that must not be replaced.
    AlreadyExists,
    /// A file was wanted, and there is a directory.
    IsDirectory,
    /// A directory was wanted, and there is something else.
    NotADirectory,
    /// The user of the sandbox may not do this.
    PermissionDenied,
    /// A path leads out of the root it is confined to.
    PathEscape,
    /// The text to replace is not there, or not once.
    EditConflict,
    /// Something is larger than the limit.
    TooLarge,
    /// A text was wanted, and there are bytes.
    Binary,
    /// The time was up.
    Timeout,
    /// This provider, or this version of what stands behind it, cannot do it.
    Unsupported,
    /// It cannot be done now, and perhaps later: a limit is reached, or the sandbox does not answer.
    Unavailable,
    /// A fault of koze or of what it builds on.
    Internal,
}

impl Code {
    /// The word: `not_found`.
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

/// An error of a tool call. Its text says what was wrong and what would be right, and holds no path of the host, no
/// secret and no stack.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{code}: {message}")]
pub struct Error {
    /// What went wrong.
    pub code: Code,
    /// The same in a sentence, for the model or person who called.
    pub message: String,
}

impl Error {
    /// An error with a message.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Error { code, message: message.into() }
    }
}

/// What operations on sandboxes return.
pub type Result<T> = std::result::Result<T, Error>;
