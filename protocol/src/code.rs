//! The kinds of errors.

use std::fmt;

/// The kind of an error. Every tool family, provider and protocol uses the same codes.
// A guest sends a code to another guest as its position. New codes come last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
#[cfg_attr(feature = "ts", derive(ts_rs::TS))]
#[non_exhaustive]
pub enum Code {
    /// The input does not match the tool's schema, or a value in it is not valid.
    InvalidInput,
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
    /// Something exceeds a size limit.
    TooLarge,
    /// The provider, or its version of the SDK or guest, does not support this.
    Unsupported,
    /// Not possible now, but a retry may succeed: a limit is reached, or the sandbox does not answer.
    Unavailable,
    /// A bug in koze, or a failure of the platform below it.
    Internal,
    /// There is no tool with this name.
    UnknownTool,
    /// The text to replace does not occur, or occurs more than once.
    EditConflict,
    /// The content is binary, but the operation needs text.
    Binary,
    /// The operation timed out.
    Timeout,
}

impl Code {
    /// Returns the code as text, such as `not_found`.
    pub fn as_str(self) -> &'static str {
        match self {
            Code::InvalidInput => "invalid_input",
            Code::NotFound => "not_found",
            Code::AlreadyExists => "already_exists",
            Code::IsDirectory => "is_directory",
            Code::NotADirectory => "not_a_directory",
            Code::PermissionDenied => "permission_denied",
            Code::PathEscape => "path_escape",
            Code::TooLarge => "too_large",
            Code::Unsupported => "unsupported",
            Code::Unavailable => "unavailable",
            Code::Internal => "internal",
            Code::UnknownTool => "unknown_tool",
            Code::EditConflict => "edit_conflict",
            Code::Binary => "binary",
            Code::Timeout => "timeout",
        }
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(all(test, feature = "serde"))]
mod tests {
    use super::*;

    #[test]
    fn codes_keep_their_positions_and_names() {
        let names = [
            "invalid_input",
            "not_found",
            "already_exists",
            "is_directory",
            "not_a_directory",
            "permission_denied",
            "path_escape",
            "too_large",
            "unsupported",
            "unavailable",
            "internal",
            "unknown_tool",
            "edit_conflict",
            "binary",
            "timeout",
        ];
        for (position, name) in (0_u8..).zip(names) {
            let code: Code = postcard::from_bytes(&[position]).unwrap();
            assert_eq!(code.as_str(), name);
            assert_eq!(postcard::to_stdvec(&code).unwrap(), [position]);
            assert_eq!(serde_json::to_value(code).unwrap(), name);
        }
    }
}
