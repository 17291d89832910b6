//! A file or tree as a stream: what one guest packs, another unpacks. A record is a message; behind that of a file come
//! its bytes in pieces, each with its length in front, and an empty one at the end.
//!
//! A sender that fails says so in the stream, as its last record. In the middle of a file, the length [`FAILED`] announces it.
//!
//! Neither end follows a link below the place it is told. Who unpacks believes nothing: what comes may be from anybody.

mod pack;
#[cfg(test)]
mod tests;
mod unpack;

use serde::{Deserialize, Serialize};

pub(crate) use self::pack::pack;
pub(crate) use self::unpack::unpack;
use crate::message::Fault;

/// How many bytes of a file are read and written at once. These few stay in a processor's cache, and so do those in the pipe:
/// of eight times as many, each copy takes twice as long.
const PIECE: usize = 32 << 10;
/// What is in front of a piece: how long it is.
const HEAD: usize = 4;
/// The length in front of a record that ends the stream in the middle of a file.
const FAILED: u32 = u32::MAX;
/// The longest record: a name and a link's target.
const RECORD: usize = 16 << 10;
/// The longest text of a failure in a stream, in bytes: a path in it may be far longer than a record.
const REASON: usize = 4 << 10;
/// A file that says it is empty and is not, of `/proc`, is read this far.
const UNKNOWN: u64 = 16 << 20;
/// How many files and directories one stream holds.
const MOST: usize = 1_000_000;
/// How deep they lie; each level keeps a descriptor.
const DEEPEST: usize = 400;
/// What a file or directory takes on the disk beside its bytes.
const BLOCK: u64 = 4096;
/// How often a name is looked at that is something else each time.
const TURNS: usize = 40;

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
    /// The directory has nothing more in it.
    Up,
    /// That was all.
    End,
    /// The sender could not go on.
    Failed(Fault),
}
