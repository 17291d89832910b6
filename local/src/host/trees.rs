//! Files and trees of this machine as streams, which a sandbox unpacks or has packed: see [`TreePipe`](crate::TreePipe).
//!
//! Symbolic links are copied and never followed, except for one that the given path itself ends in.

use std::io::{Read, Write};
use std::path::Path;

use koze_guest::message::Place;
use koze_guest::stream;

use crate::errors::convert_fault;
use koze_core::error::{Code, Error, Result};

/// Serializes a file or tree. `to` should buffer small writes.
///
/// # Errors
/// [`Code::Unsupported`] for a pipe, socket or device, [`Code::TooLarge`] for a tree that is too deep or has too many entries, and
/// the errors of the file system.
pub fn pack(path: &Path, to: impl Write) -> Result<()> {
    stream::pack(&place_at(path)?, "", to).map_err(convert_fault)
}

/// Creates the file or tree of a stream at a path that does not exist, completely or not at all. Returns the bytes of all files.
///
/// # Errors
/// The errors of the sender and of the file system, and [`Code::Unavailable`] for a stream that ends early.
pub fn unpack(path: &Path, from: impl Read) -> Result<u64> {
    stream::unpack(&place_at(path)?, u64::MAX, from).map_err(convert_fault)
}

fn place_at(path: &Path) -> Result<Place> {
    let text = path.to_str().ok_or_else(|| {
        Error::new(Code::InvalidInput, format!("{}: a path of a tree must be valid UTF-8", path.display()))
    })?;
    Ok(Place { root: "/".to_owned(), path: text.to_owned() })
}
