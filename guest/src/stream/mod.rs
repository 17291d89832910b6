//! Serializes a file or tree: one guest packs it, another unpacks it. A record is a message. The record of a file is
//! followed by its bytes in pieces, each with a length prefix, and an empty piece at the end.
//!
//! If the sender fails, its last record says why. In the middle of a file, the length `u32::MAX` announces that record.
//!
//! Neither end follows a link below the given path. The receiver trusts nothing: the stream may come from anywhere.

mod pack;
#[cfg(test)]
mod tests;
mod unpack;

use serde::{Deserialize, Serialize};

pub use self::pack::pack;
pub(crate) use self::pack::{Opened, Stop, open_entry};
pub use self::unpack::unpack;
use crate::message::Fault;

/// How many bytes of a file are read and written at once. Pieces of this size stay in the processor's cache, as does
/// the content of the pipe; with eight times the size, each copy takes twice as long.
const PIECE: usize = 32 << 10;
/// The length prefix of a piece.
const HEAD: usize = 4;
/// The length prefix that announces a failure record in the middle of a file.
const FAILED: u32 = u32::MAX;
/// The maximum length of a record: a name and a link target.
const RECORD: usize = 16 << 10;
/// The maximum length of a failure's text, in bytes: a path in it may be much longer than a record.
const REASON: usize = 4 << 10;
/// How much is read from a file that reports size 0, as those of `/proc` do.
const UNKNOWN: u64 = 16 << 20;
/// The maximum number of files and directories in a stream.
const MAX_ENTRIES: usize = 1_000_000;
/// The maximum depth of the tree; each level holds a descriptor.
pub(crate) const MAX_DEPTH: usize = 400;
/// The disk space that a file or directory takes in addition to its content.
pub(crate) const BLOCK: u64 = 4096;
/// How often a name that keeps changing is retried.
pub(crate) const MAX_ATTEMPTS: usize = 40;

#[derive(Debug, Serialize, Deserialize)]
enum Record {
    Directory {
        name: Vec<u8>,
        mode: u32,
    },
    File {
        name: Vec<u8>,
        mode: u32,
    },
    Link {
        name: Vec<u8>,
        target: Vec<u8>,
    },
    /// The end of a directory.
    Up,
    /// The end of the stream.
    End,
    /// The sender failed.
    Failed(Fault),
}
