//! Reads the stream in which a guest archives a directory, whose pieces the contract of `archive` defines.

use serde::Deserialize;

use super::Contents;
use crate::error::{Code, Error, Result};

/// The maximum length of a piece, and of the last one, which may contain a long path.
const MAX_PIECE: usize = 64 << 10;

/// The last piece, which is JSON.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Last {
    /// The archive is complete.
    Ok(Contents),
    /// The archive is incomplete.
    Failed { why: Code, text: String },
}

/// Reads the pieces of an archive.
#[derive(Debug, Default)]
pub struct Pieces {
    next: Next,
    /// The received bytes of a length or of the last piece.
    collected: Vec<u8>,
}

/// The next part of the stream.
#[derive(Debug, Default)]
enum Next {
    /// The length of a piece.
    #[default]
    Length,
    /// The rest of a piece.
    Piece(usize),
    /// The length of the last piece.
    LastLength,
    /// The last piece.
    Last(usize),
    /// The end: the archive is complete.
    Nothing(Contents),
}

impl Pieces {
    /// Takes received bytes, and appends their part of the archive to `archive`.
    ///
    /// # Errors
    /// The error of the sandbox, and [`Code::Internal`] if the stream is not valid.
    pub fn add(&mut self, mut bytes: &[u8], archive: &mut Vec<u8>) -> Result<()> {
        while !bytes.is_empty() {
            match self.next {
                Next::Length => {
                    let Some(length) = self.length(&mut bytes)? else { break };
                    self.next = if length == 0 { Next::LastLength } else { Next::Piece(length) };
                }
                Next::Piece(left) => {
                    let piece = take(&mut bytes, left);
                    archive.extend_from_slice(piece);
                    let left = left - piece.len();
                    self.next = if left == 0 { Next::Length } else { Next::Piece(left) };
                }
                Next::LastLength => {
                    let Some(length) = self.length(&mut bytes)? else { break };
                    self.next = Next::Last(length);
                }
                Next::Last(length) => {
                    let Some(text) = self.collect(&mut bytes, length) else { break };
                    self.next = match serde_json::from_slice(&text) {
                        Ok(Last::Ok(contents)) => Next::Nothing(contents),
                        Ok(Last::Failed { why, text }) => return Err(Error::new(why, text)),
                        Err(error) => return Err(wrong(&error)),
                    };
                }
                Next::Nothing(_) => return Err(wrong(&"bytes follow the end")),
            }
        }
        Ok(())
    }

    /// Returns what the archive contains, at the end of the stream.
    ///
    /// # Errors
    /// [`Code::Unavailable`] if the stream ended early.
    pub fn finish(self) -> Result<Contents> {
        match self.next {
            Next::Nothing(contents) => Ok(contents),
            _ => Err(broken_off()),
        }
    }

    fn length(&mut self, bytes: &mut &[u8]) -> Result<Option<usize>> {
        let Some(length) = self.collect(bytes, 4) else { return Ok(None) };
        let length = length.iter().rev().fold(0, |length, byte| length << 8 | usize::from(*byte));
        if length > MAX_PIECE { Err(wrong(&"a piece is too long")) } else { Ok(Some(length)) }
    }

    /// Returns `wanted` bytes once they have been received.
    fn collect(&mut self, bytes: &mut &[u8], wanted: usize) -> Option<Vec<u8>> {
        self.collected.extend_from_slice(take(bytes, wanted - self.collected.len()));
        (self.collected.len() == wanted).then(|| std::mem::take(&mut self.collected))
    }
}

/// Returns the error for an archive that ends early.
pub fn broken_off() -> Error {
    Error::new(
        Code::Unavailable,
        "the archive is incomplete: the sandbox has ended, or the archive was not read for ten minutes",
    )
}

fn wrong(what: &impl std::fmt::Display) -> Error {
    Error::new(Code::Internal, format!("the sandbox sent an archive that is not valid: {what}"))
}

fn take<'a>(bytes: &mut &'a [u8], most: usize) -> &'a [u8] {
    let (taken, rest) = bytes.split_at(bytes.len().min(most));
    *bytes = rest;
    taken
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(bytes: &[u8]) -> Vec<u8> {
        [&u32::try_from(bytes.len()).unwrap().to_le_bytes(), bytes].concat()
    }

    /// Reads a stream in parts of this length.
    fn read(bytes: &[u8], part: usize) -> Result<(Vec<u8>, Contents)> {
        let (mut pieces, mut archive) = (Pieces::default(), Vec::new());
        for part in bytes.chunks(part) {
            pieces.add(part, &mut archive)?;
        }
        pieces.finish().map(|contents| (archive, contents))
    }

    #[test]
    fn an_archive_in_any_parts() {
        let ok = br#"{"ok":{"entries":3,"bytes":4,"skipped":5}}"#;
        let long = vec![7; MAX_PIECE];
        let stream = [piece(b"some"), piece(&long), piece(b"."), piece(b""), piece(ok)].concat();
        let expected = [&b"some"[..], &long, b"."].concat();
        for part in [1, 2, 3, 5, 7, 1000, MAX_PIECE, 1 << 20] {
            let (archive, contents) = read(&stream, part).unwrap();
            assert!(archive == expected, "{part}");
            assert_eq!(contents, Contents { entries: 3, bytes: 4, skipped: 5 });
        }
        for length in 0..stream.len() {
            let error = read(&stream[..length], 1 << 20).unwrap_err();
            assert_eq!(error.code, Code::Unavailable, "{length}");
        }
    }

    #[test]
    fn an_archive_that_failed() {
        let failed = piece(br#"{"failed":{"why":"not_found","text":"`/x` does not exist"}}"#);
        let error = read(&[piece(b"some"), piece(b""), failed].concat(), 5).unwrap_err();
        assert_eq!((error.code, &*error.message), (Code::NotFound, "`/x` does not exist"));
    }

    #[test]
    fn invalid_streams() {
        let ok = piece(br#"{"ok":{"entries":0,"bytes":0}}"#);
        for stream in [
            u32::MAX.to_le_bytes().to_vec(),
            [piece(b""), u32::MAX.to_le_bytes().to_vec()].concat(),
            [piece(b""), piece(b"{}")].concat(),
            [piece(b""), piece(br#"{"failed":{"why":"nothing","text":""}}"#)].concat(),
            [piece(b""), ok, b"x".to_vec()].concat(),
        ] {
            assert_eq!(read(&stream, 3).unwrap_err().code, Code::Internal, "{stream:?}");
        }
    }
}
