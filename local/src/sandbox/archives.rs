//! The stream of a directory that a sandbox archives: see [`TreePipe`](crate::TreePipe).

use std::io::Read;

use koze_core::archive::Contents;
use koze_core::error::Result;

use super::archive::read_pieces;

/// Reads such a stream to its end. `take` gets the archive in pieces, and returns whether it takes more. Returns what the archive
/// contains.
///
/// # Errors
/// The errors of the sandbox, and [`Code::Unavailable`](koze_core::Code::Unavailable) if the stream ends early or `take` takes no more.
pub fn read(from: impl Read, mut take: impl FnMut(Vec<u8>) -> bool) -> Result<Contents> {
    let (last, contents) = read_pieces(from, &mut take)?;
    if !last.is_empty() {
        take(last);
    }
    Ok(contents)
}
