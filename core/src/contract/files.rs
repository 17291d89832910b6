//! What the methods that are about files take and give.

use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;

use super::Entry;

/// A path.
pub type Path = koze_protocol::Place;

/// The maximum number of bytes that one call reads or writes. The platform limits a call to 32 MiB.
pub const LARGEST_PIECE: u32 = 8 << 20;

/// Part of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(export_to = "contract.d.ts"))]
pub struct Piece {
    /// The bytes.
    #[cfg_attr(test, ts(type = "Uint8Array"))]
    pub bytes: ByteBuf,
    /// The size of the whole file.
    #[cfg_attr(test, ts(type = "number"))]
    pub size: u64,
}

/// The content to write to a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(export_to = "contract.d.ts"))]
pub struct Write {
    /// As in [`Path`].
    pub root: String,
    /// As in [`Path`].
    pub path: String,
    /// The bytes, at most [`LARGEST_PIECE`].
    #[cfg_attr(test, ts(type = "Uint8Array"))]
    pub bytes: ByteBuf,
    /// Whether to append them.
    pub append: bool,
    /// The size of the file that they are appended to, of which they are the next piece. With 0, the file must not exist. Any
    /// other file is left unchanged, and is `unavailable` or `already_exists`. `null` for whatever file is there.
    ///
    /// A class that is older than this appends to whatever is there, so compare the new size.
    #[cfg_attr(test, ts(type = "number | null"))]
    pub offset: Option<u64>,
}

/// A written file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(export_to = "contract.d.ts"))]
pub struct Written {
    /// Its new size.
    #[cfg_attr(test, ts(type = "number"))]
    pub size: u64,
}

/// A text to replace in a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(export_to = "contract.d.ts"))]
pub struct Edit {
    /// As in [`Path`].
    pub root: String,
    /// As in [`Path`].
    pub path: String,
    /// The bytes to replace, at least one and at most [`MAX_EDIT_TEXT`](crate::sandbox::MAX_EDIT_TEXT).
    #[cfg_attr(test, ts(type = "Uint8Array"))]
    pub old: ByteBuf,
    /// The bytes that replace them, at most as many.
    #[cfg_attr(test, ts(type = "Uint8Array"))]
    pub new: ByteBuf,
    /// Whether to replace every occurrence. Otherwise there must be exactly one.
    pub all: bool,
}

/// Lines of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(export_to = "contract.d.ts"))]
#[serde(rename_all = "camelCase")]
pub struct Lines {
    /// The first characters of the range, as UTF-8.
    #[cfg_attr(test, ts(type = "Uint8Array"))]
    pub text: ByteBuf,
    /// The number of characters of the whole range.
    #[cfg_attr(test, ts(type = "number"))]
    pub chars: u64,
    /// Whether the file has fewer lines than the first one requested.
    pub past_end: bool,
    /// Whether something up to the end of the range is not text: then there are no lines.
    pub binary: bool,
    /// The size of the file.
    #[cfg_attr(test, ts(type = "number"))]
    pub size: u64,
}

/// The entries of a directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(export_to = "contract.d.ts"))]
pub struct Entries {
    /// The list.
    pub entries: Vec<Entry>,
}

/// Where to create the files of a stream or archive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(export_to = "contract.d.ts"))]
pub struct Unpack {
    /// As in [`Path`].
    pub root: String,
    /// As in [`Path`].
    pub path: String,
    /// As in `Exec`.
    pub call: Option<String>,
}

/// The files that were created from a stream.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(export_to = "contract.d.ts"))]
pub struct Unpacked {
    /// Their total size.
    #[cfg_attr(test, ts(type = "number"))]
    pub bytes: u64,
}

/// The files that were created from an archive.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS), ts(export_to = "contract.d.ts"))]
pub struct Extracted {
    /// The number of files, directories and symbolic links.
    #[cfg_attr(test, ts(type = "number"))]
    pub entries: u64,
    /// The total size of the files.
    #[cfg_attr(test, ts(type = "number"))]
    pub bytes: u64,
}
