//! Paths, and what is at them.

use crate::Code;

/// A path and the directory that it is confined to. The path, with symbolic links resolved, must be inside the directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "ts", derive(ts_rs::TS), ts(export_to = "contract.d.ts", rename = "Path", concrete(S = String)))]
pub struct Place<S = String> {
    /// The directory. `/` stands for the whole sandbox.
    pub root: S,
    /// The absolute path.
    pub path: S,
}

impl Place {
    /// Returns the same place without its own copies of the texts.
    pub fn borrowed(&self) -> Place<&str> {
        Place { root: &self.root, path: &self.path }
    }
}

impl Place<&str> {
    /// Returns the same place with its own copies of the texts.
    pub fn owned(self) -> Place {
        Place { root: self.root.to_owned(), path: self.path.to_owned() }
    }
}

/// Why a piece of a file that several calls write does not fit what is at its path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Misfit {
    /// The first piece creates the file, but there is one.
    Exists,
    /// A later piece does not find exactly the earlier ones.
    Lost,
}

impl Misfit {
    /// Checks that a piece with this offset can be appended to a file of this size; `None` if there is no file.
    ///
    /// # Errors
    /// If it cannot.
    pub fn check(offset: u64, size: Option<u64>) -> Result<(), Misfit> {
        match size {
            None if offset == 0 => Ok(()),
            Some(_) if offset == 0 => Err(Misfit::Exists),
            size if size == Some(offset) => Ok(()),
            _ => Err(Misfit::Lost),
        }
    }

    /// Returns the code of the error.
    pub fn code(self) -> Code {
        match self {
            Misfit::Exists => Code::AlreadyExists,
            Misfit::Lost => Code::Unavailable,
        }
    }

    /// Returns the message of the error.
    pub fn message(self, path: &str) -> String {
        match self {
            Misfit::Exists => format!("`{path}` already exists"),
            Misfit::Lost => format!(
                "`{path}` was not written: its first part is gone, because the sandbox's container restarted in the middle, or \
                 a program removed it; send it again from the beginning"
            ),
        }
    }
}

/// The kind of a directory entry.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Kind {
    /// A file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link with its target.
    Link(String),
    /// A pipe, a socket or a device.
    Other,
}

/// The metadata of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "ts", derive(ts_rs::TS), ts(as = "crate::stat::Flat"))]
pub struct Stat {
    /// Its kind.
    pub kind: Kind,
    /// Its size in bytes.
    pub size: u64,
    /// Its permission bits.
    pub mode: u32,
    /// When its content last changed, in milliseconds since the epoch. Unknown if the guest or class is older than this
    /// field.
    pub mtime: Option<i64>,
    /// A number that changes when its content or metadata does, or another file takes its place. Unknown as above.
    pub version: Option<u64>,
}

/// An entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "ts", derive(ts_rs::TS), ts(export_to = "contract.d.ts"))]
pub struct Entry {
    /// Its name. Bytes that are not UTF-8 are replaced by U+FFFD; such an entry cannot be addressed.
    pub name: String,
    /// Its metadata, without following a symbolic link.
    pub stat: Stat,
}
