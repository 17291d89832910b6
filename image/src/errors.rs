//! Errors of the store.

use std::io;
use std::path::Path;

/// The result of an operation of the store.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why an operation of the store failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The image is invalid or not permitted: it is damaged, for another platform, or exceeds a limit.
    #[error("{0}")]
    Refused(String),
    /// An operation of the file system failed.
    #[error("{0}: {1}")]
    Io(String, #[source] io::Error),
    /// The registry cannot be reached, refused the request, or sent an invalid response.
    #[error("{0}")]
    Registry(String),
    /// The store does not contain it.
    #[error("{0}")]
    Missing(String),
    /// Another process uses it.
    #[error("{0}")]
    Busy(String),
}

impl Error {
    /// Creates an error for an image that is not accepted.
    pub(crate) fn refused(text: impl Into<String>) -> Self {
        Error::Refused(text.into())
    }
}

/// Returns what converts an error of the operating system, for `map_err`.
pub(crate) fn at(action: &str, path: &Path) -> impl FnOnce(io::Error) -> Error {
    let text = format!("cannot {action} {}", path.display());
    move |error| Error::Io(text, error)
}
