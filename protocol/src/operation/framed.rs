//! Inputs whose bytes travel beside the JSON: in a stream of a call of the guest, or behind the JSON of a frame. The contract
//! has the same inputs with the bytes in them.

use serde::{Deserialize, Serialize};

/// A file to write. Its content follows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Write {
    /// As in [`Place`](crate::Place).
    pub root: String,
    /// As in [`Place`](crate::Place).
    pub path: String,
    /// Whether to append the bytes.
    #[serde(default)]
    pub append: bool,
    /// The size that the file must have for that; with 0, it must not exist. `None` for any file.
    pub offset: Option<u64>,
}

/// A text to replace in a file. The old text follows, and then the new one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Edit {
    /// As in [`Place`](crate::Place).
    pub root: String,
    /// As in [`Place`](crate::Place).
    pub path: String,
    /// The length of the old text, in bytes.
    pub old: u64,
    /// Whether to replace every occurrence. Otherwise there must be exactly one.
    pub all: bool,
}

/// A process to write to. The bytes follow.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WriteProcess {
    /// Its ID.
    pub id: String,
    /// How long to wait until they are written, in milliseconds.
    #[serde(alias = "wait_ms")]
    pub wait_ms: u32,
}
