//! The two sides of a copy.

use std::ffi::OsStr;
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use koze_core::{Code, Error, Result, SandboxName};

use super::show;
use crate::args;

/// The prefix of the names of staging files and directories.
pub(super) const STAGING: &str = ".koze-cp-";

/// One side of a copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Side {
    /// Standard input or output.
    Standard,
    /// A path on this machine.
    Host(PathBuf),
    /// A path in a sandbox.
    Sandbox { name: String, path: String },
}

impl Side {
    /// Parses an argument. `NAME:PATH` is a path in a sandbox if NAME can be the name of one: a file of this machine with such a
    /// name is written `./NAME:PATH`.
    pub(super) fn of(text: &OsStr) -> Self {
        if text == "-" {
            return Side::Standard;
        }
        let split = text.to_str().and_then(|text| text.split_once(':'));
        match split.filter(|(name, _)| SandboxName::new(name).is_ok()) {
            Some((name, path)) => {
                let path = if path.is_empty() { "/home/user" } else { path };
                Side::Sandbox { name: name.to_owned(), path: path.to_owned() }
            }
            None => Side::Host(text.into()),
        }
    }

    /// Returns the name that the copy gets in an existing directory, if this side has one.
    pub(super) fn last_name(&self) -> Option<&OsStr> {
        match self {
            Side::Standard => None,
            Side::Host(path) => path.file_name(),
            Side::Sandbox { path, .. } => {
                let name = path.trim_end_matches('/').rsplit('/').next()?;
                (!matches!(name, "" | "." | "..")).then_some(OsStr::new(name))
            }
        }
    }
}

/// Returns the two sides of a copy. Shows what is wrong with them.
pub(super) fn parse(args: &args::Cp) -> std::result::Result<(Side, Side), ExitCode> {
    let (from, to) = (Side::of(&args.from), Side::of(&args.to));
    if matches!((&from, &to), (Side::Sandbox { .. }, _) | (_, Side::Sandbox { .. })) {
        return Ok((from, to));
    }
    Err(show::usage("one of the two is in a sandbox: write it as `NAME:PATH`, such as `default:report.csv`"))
}

/// Returns the path of an entry in a directory of a sandbox.
pub(super) fn within(directory: &str, name: &str) -> String {
    format!("{}/{name}", directory.trim_end_matches('/'))
}

/// Returns where a copy goes on this machine: into an existing directory under the name of its source.
pub(super) fn target_path(to: &Path, from: &Side) -> Result<PathBuf> {
    let ends_in_slash = to.as_os_str().as_encoded_bytes().ends_with(b"/");
    if !to.is_dir() {
        if ends_in_slash {
            let message =
                format!("`{}` is not a directory: create it first, or leave out the last `/`", to.display());
            return Err(Error::new(Code::NotADirectory, message));
        }
        return Ok(to.to_owned());
    }
    Ok(to.join(from.last_name().ok_or_else(|| missing_name_error(to.display()))?))
}

/// Returns the error for a directory into which something without a name would be copied.
pub(super) fn missing_name_error(directory: impl Display) -> Error {
    let message =
        format!("`{directory}` is a directory, and what is copied has no name: add one to the path");
    Error::new(Code::IsDirectory, message)
}

/// Returns the directory that a path of this machine is in.
pub(super) fn parent(path: &Path) -> &Path {
    path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sides() {
        let sandbox = |name: &str, path: &str| Side::Sandbox { name: name.into(), path: path.into() };
        for (text, side) in [
            ("-", Side::Standard),
            ("py:/home/user/x", sandbox("py", "/home/user/x")),
            ("py:x:y", sandbox("py", "x:y")),
            ("py:", sandbox("py", "/home/user")),
            ("./py:x", Side::Host("./py:x".into())),
            ("/tmp/a:b", Side::Host("/tmp/a:b".into())),
            ("a b:c", Side::Host("a b:c".into())),
            (":c", Side::Host(":c".into())),
            ("file", Side::Host("file".into())),
        ] {
            assert_eq!(Side::of(text.as_ref()), side, "{text}");
        }
    }

    #[test]
    fn names() {
        for (text, name) in [
            ("py:a/b", Some("b")),
            ("py:a/b/", Some("b")),
            ("py:/", None),
            ("py:a/..", None),
            ("a/b", Some("b")),
            ("/", None),
            ("..", None),
            ("-", None),
        ] {
            assert_eq!(Side::of(text.as_ref()).last_name(), name.map(OsStr::new), "{text}");
        }
        assert_eq!(within("/a/", "b"), "/a/b");
        assert_eq!(within("/", "b"), "/b");
    }
}
