//! The paths of a thread, and the texts for what can go wrong with them.

use super::error_text;
use crate::error::{Code, Error};
use crate::path::{USER_DATA, check};
use crate::sandbox::Place;

/// A path that a model gave.
pub(super) struct Given<'a> {
    /// As the model wrote it.
    pub(super) written: &'a str,
}

impl<'a> Given<'a> {
    /// Checks a path. What it leads to is only known inside the sandbox.
    pub(super) fn new(written: &'a str) -> Result<Self, String> {
        check(written).map_err(|error| error.message)?;
        let given = Given { written };
        let below =
            written.strip_prefix(USER_DATA).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        if below { Ok(given) } else { Err(given.outside_error()) }
    }

    /// Returns the path for the sandbox.
    pub(super) fn to_place(&self) -> Place<'a> {
        confine_path(self.written)
    }

    /// Returns the path without needless slashes and dots, for results.
    pub(super) fn normalized_path(&self) -> String {
        let parts = self.written.split('/').filter(|part| !matches!(*part, "" | "."));
        parts.fold(String::new(), |path, part| path + "/" + part)
    }

    /// Returns the text for an error: `named` is the tool's own text for the code, if it has one. `what` begins all others.
    pub(super) fn failure_text(&self, error: &Error, what: &str, named: Option<String>) -> String {
        if let Some(text) = named {
            return text;
        }
        // The same words on every host.
        let message = match error.code {
            Code::PathEscape => return self.outside_error(),
            Code::Unavailable | Code::Unsupported => return error_text(error),
            Code::NotFound => "the path does not exist",
            Code::PermissionDenied => "permission denied",
            Code::IsDirectory => "the path is a directory",
            Code::NotADirectory => "the path, or a part of it, is not a directory",
            Code::InvalidInput => {
                "the path is a pipe, socket or device, or has too many symbolic links, or a name of more than 255 bytes"
            }
            _ => &error.message,
        };
        format!("{what}: {}: {message}", error.code)
    }

    fn outside_error(&self) -> String {
        format!("Permission denied: only paths under {USER_DATA} are allowed: {}", self.written)
    }
}

/// Returns a path that is confined to the thread's directories.
pub(super) fn confine_path(path: &str) -> Place<'_> {
    Place { root: USER_DATA, path }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_a_thread() {
        for path in ["/mnt/user-data", "/mnt/user-data/", "/mnt/user-data/workspace/a", "/mnt/user-data/../x"]
        {
            assert!(Given::new(path).is_ok(), "{path}");
        }
        for path in ["/", "/etc/passwd", "/mnt/user-data2", "/mnt", "workspace/a", "/mnt/./user-data", "~"] {
            let denied = format!("Permission denied: only paths under /mnt/user-data are allowed: {path}");
            assert_eq!(Given::new(path).err(), Some(denied));
        }
        assert_eq!(Given::new("").err().unwrap(), "a path must not be empty");
        assert_eq!(Given::new("/mnt/user-data/\0").err().unwrap(), "a path must not contain NUL");
        let shown = Given { written: "/mnt/user-data//workspace/./a/../b/" }.normalized_path();
        assert_eq!(shown, "/mnt/user-data/workspace/a/../b");
    }
}
