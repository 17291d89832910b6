//! The names of an archive's entries, and what they mean.

use std::io;

use crate::errors::{Error, Result};

const WHITEOUT: &[u8] = b".wh.";
/// Names with this prefix belong to aufs, and are no whiteouts.
const METADATA: &[u8] = b".wh..wh.";
const OPAQUE: &[u8] = b".wh..wh..opq";

/// What the name of an entry means. The root is the empty parent.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Name<'a> {
    /// The root of the layer.
    Root,
    /// A file, directory or link.
    Entry { parent: &'a [u8], name: &'a [u8] },
    /// A name that the layers below may have, and the image no longer has.
    Whiteout { parent: &'a [u8], name: &'a [u8] },
    /// A directory that shows nothing of the layers below.
    Opaque { parent: &'a [u8] },
    /// Metadata of aufs, which overlays do not need.
    Metadata,
}

impl<'a> Name<'a> {
    /// Determines what a name means. Names that lead up are refused: no builder of images writes them.
    pub(super) fn parse(path: &'a [u8]) -> Result<Self> {
        let refused = |why: &str| failed(path, io::Error::other(why.to_owned()));
        if path.contains(&0) {
            return Err(refused("its name contains a zero byte"));
        }
        if path.split(|byte| *byte == b'/').any(|component| component == b"..") {
            return Err(refused("its name leads up"));
        }
        let path = trim_end(path);
        let start = path.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
        let (parent, last) = path.split_at(start);
        let parent = trim_end(parent);
        if last.is_empty() {
            return Ok(Name::Root);
        }
        if parent.split(|byte| *byte == b'/').any(|component| component.starts_with(WHITEOUT)) {
            return Err(refused("it is below a whiteout"));
        }
        if last == OPAQUE {
            return Ok(Name::Opaque { parent });
        }
        if last.starts_with(METADATA) && last.len() > METADATA.len() {
            return Ok(Name::Metadata);
        }
        match last.strip_prefix(WHITEOUT) {
            None => Ok(Name::Entry { parent, name: last }),
            Some(b"" | b"." | b"..") => Err(refused("it is a whiteout of no name")),
            Some(name) => Ok(Name::Whiteout { parent, name }),
        }
    }
}

/// Removes slashes from the end of a path, and components that mean the same directory.
fn trim_end(mut path: &[u8]) -> &[u8] {
    loop {
        path = match path {
            [rest @ .., b'/'] | [rest @ .., b'/', b'.'] => rest,
            [b'.'] => &[],
            _ => return path,
        };
    }
}

/// Returns the error for an entry.
pub(super) fn failed(path: &[u8], error: io::Error) -> Error {
    let shown: String = String::from_utf8_lossy(path).chars().take(200).collect();
    match error.raw_os_error() {
        Some(_) => Error::Io(format!("cannot unpack `{}`", shown.escape_debug()), error),
        None => {
            Error::refused(format!("the entry `{}` of a layer is not allowed: {error}", shown.escape_debug()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_meanings() {
        let entry = |parent, name| Name::Entry { parent, name };
        let cases: [(&[u8], Name); 12] = [
            (b"./", Name::Root),
            (b"", Name::Root),
            (b"/", Name::Root),
            (b"./.", Name::Root),
            (b"a", entry(b"", b"a")),
            (b"./a/", entry(b"", b"a")),
            (b"/usr//bin/./env", entry(b"/usr//bin", b"env")),
            (b"a/.wh.b", Name::Whiteout { parent: b"a", name: b"b" }),
            (b".wh....", Name::Whiteout { parent: b"", name: b"..." }),
            (b".wh..wh..opq", Name::Opaque { parent: b"" }),
            (b"a/.wh..wh..opq", Name::Opaque { parent: b"a" }),
            (b".wh..wh.plnk", Name::Metadata),
        ];
        for (path, name) in cases {
            assert_eq!(Name::parse(path).unwrap(), name, "{}", path.escape_ascii());
        }
    }

    #[test]
    fn names_that_lead_up_are_refused() {
        let cases: [&[u8]; 9] =
            [b"..", b"../a", b"a/../b", b"a/..", b".wh.", b".wh..", b".wh...", b"a\0b", b".wh.a/b"];
        for path in cases {
            assert!(Name::parse(path).is_err(), "{}", path.escape_ascii());
        }
    }
}
