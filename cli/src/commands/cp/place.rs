//! The two sides of a copy.

use std::ffi::OsStr;
use std::path::PathBuf;

use koze_core::SandboxName;

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

/// Returns the path of an entry in a directory of a sandbox.
pub(super) fn within(directory: &str, name: &str) -> String {
    format!("{}/{name}", directory.trim_end_matches('/'))
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
