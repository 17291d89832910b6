//! The stream of a directory that a sandbox archives: pieces with their lengths, and a trailer.

use std::io::{self, BufReader, Read};

use koze_core::archive::Contents;
use koze_core::error::Result;
use koze_guest::archive::{PIECE, Trailer};

use crate::errors::{convert_fault, gone_error, unexpected_answer};

/// How much is passed on at once.
const CHUNK: usize = 1 << 20;
/// The maximum length of a trailer: a path in it may be long.
const MAX_TRAILER: usize = 64 << 10;

/// The last part of an archive, and what the whole contains.
pub type Part = (Vec<u8>, Contents);

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

/// Reads the stream of a guest to its end, and returns its last part. `take` gets the others, and returns whether it takes more.
///
/// # Errors
/// As [`read`].
pub fn read_pieces(from: impl Read, mut take: impl FnMut(Vec<u8>) -> bool) -> Result<Part> {
    let mut from = BufReader::with_capacity(PIECE, from);
    let broken = |_: io::Error| gone_error();
    loop {
        let mut chunk = Vec::with_capacity(CHUNK);
        while chunk.len() + PIECE <= CHUNK {
            let length = read_length(&mut from).map_err(broken)?;
            if length == 0 {
                return match read_trailer(&mut from)? {
                    Trailer::Ok(contents) => Ok((chunk, contents)),
                    Trailer::Failed(fault) => Err(convert_fault(fault)),
                };
            }
            if length > PIECE {
                return Err(unexpected_answer());
            }
            let start = chunk.len();
            chunk.resize(start + length, 0);
            from.read_exact(&mut chunk[start..]).map_err(broken)?;
        }
        if !take(chunk) {
            return Err(gone_error());
        }
    }
}

fn read_trailer(from: &mut impl Read) -> Result<Trailer> {
    let length = read_length(from).map_err(|_| gone_error())?;
    if length > MAX_TRAILER {
        return Err(unexpected_answer());
    }
    let mut text = vec![0; length];
    from.read_exact(&mut text).map_err(|_| gone_error())?;
    serde_json::from_slice(&text).map_err(|_| unexpected_answer())
}

fn read_length(from: &mut impl Read) -> io::Result<usize> {
    let mut length = [0; 4];
    from.read_exact(&mut length)?;
    Ok(u32::from_le_bytes(length) as usize)
}
