//! Errors of builds.

use std::fmt;
use std::io;
use std::path::Path;

/// The result of a part of a build.
pub(crate) type Result<T, E = Failure> = std::result::Result<T, E>;

/// Why an image was not built.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure(String);

impl Failure {
    /// Creates an error that says everything itself.
    pub(crate) fn new(text: impl fmt::Display) -> Self {
        Failure(text.to_string())
    }

    /// Returns what converts an error of the operating system, for `map_err`.
    pub(super) fn at(action: &str, path: &Path) -> impl FnOnce(io::Error) -> Self + use<> {
        let text = format!("cannot {action} {}", path.display());
        move |error| Failure(format!("{text}: {error}"))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<koze_image::Error> for Failure {
    fn from(error: koze_image::Error) -> Self {
        Failure::new(error)
    }
}
