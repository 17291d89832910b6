//! Syntax errors, the same for both formats.

use std::ops::Range;

/// A syntax error that keeps a text from being parsed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct SyntaxError {
    /// The invalid bytes of the given text, counting a byte order mark. May be empty, for example at the end of the text.
    pub range: Range<usize>,
    /// What is wrong, without the place.
    pub message: String,
}
