//! Archives a directory.

use std::fs::File;
use std::io::{self, Read as _, Write};

use koze_protocol::tar::{Entry, What, end, padding, write_header};
use rustix::fs::Stat;

use super::walk::{Name, Sink, walk_directory};
use super::{PIECE, Trailer};
use crate::message::{Fault, Place};
use crate::stream::Stop;

/// Files up to this size in bytes are read before their header is written, so a change in between does no harm.
const SMALL: usize = 128 << 10;
/// The length prefix of a piece.
const HEAD: usize = 4;

/// Archives a directory.
///
/// # Errors
/// The fault that the trailer also reports. It is not an error if the reader is gone.
pub fn pack(place: &Place, to: impl Write) -> Result<(), Fault> {
    let mut out = Out::new(to);
    let packed = walk_directory(place, &mut out).and_then(|contents| {
        out.add(&end())?;
        Ok(contents)
    });
    let trailer = match packed {
        Ok(contents) => Trailer::Ok(contents),
        Err(Stop::ReaderGone) => return Ok(()),
        Err(Stop::Fault(fault)) => Trailer::Failed(fault),
    };
    let _ = out.finish(&trailer);
    match trailer {
        Trailer::Ok(_) => Ok(()),
        Trailer::Failed(fault) => Err(fault),
    }
}

impl<W: Write> Sink for Out<W> {
    fn directory(&mut self, name: &Name, stat: &Stat) -> Result<(), Stop> {
        self.header(name, What::Directory, stat)
    }

    fn link(&mut self, name: &Name, target: String, stat: &Stat) -> Result<(), Stop> {
        self.header(name, What::Link(target), stat)
    }

    fn file(&mut self, name: &Name, mut file: File, stat: &Stat) -> Result<u64, Stop> {
        let failed = |error: io::Error| name.failed(&error);
        let size = u64::try_from(stat.st_size).unwrap_or_default();
        if size <= SMALL as u64 {
            let mut content = Vec::with_capacity(usize::try_from(size).unwrap_or(SMALL) + 1);
            (&mut file).take(SMALL as u64 + 1).read_to_end(&mut content).map_err(failed)?;
            if content.len() > SMALL {
                return Err(name.changed());
            }
            let size = content.len() as u64;
            self.header(name, What::File(size), stat)?;
            self.add(&content)?;
            self.add(&padding(size))?;
            return Ok(size);
        }
        self.header(name, What::File(size), stat)?;
        let mut left = size;
        while left > 0 {
            let room = self.room()?;
            let most = usize::try_from(left).unwrap_or(usize::MAX).min(room.len());
            match file.read(&mut room[..most]) {
                Ok(0) => return Err(name.changed()),
                Ok(read) => {
                    self.length += read;
                    left -= read as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(failed(error)),
            }
        }
        self.add(&padding(size))?;
        Ok(size)
    }
}

/// Sends bytes in pieces.
struct Out<W> {
    to: W,
    /// The next piece, with its prefix.
    piece: Vec<u8>,
    /// Its length so far.
    length: usize,
}

impl<W: Write> Out<W> {
    fn new(to: W) -> Self {
        Out { to, piece: vec![0; HEAD + PIECE], length: 0 }
    }

    /// Returns where the next bytes go, which are at least one.
    fn room(&mut self) -> Result<&mut [u8], Stop> {
        if self.length == PIECE {
            self.send()?;
        }
        Ok(&mut self.piece[HEAD + self.length..])
    }

    fn add(&mut self, mut bytes: &[u8]) -> Result<(), Stop> {
        while !bytes.is_empty() {
            let room = self.room()?;
            let (now, rest) = bytes.split_at(bytes.len().min(room.len()));
            room[..now.len()].copy_from_slice(now);
            self.length += now.len();
            bytes = rest;
        }
        Ok(())
    }

    fn header(&mut self, name: &Name, what: What, stat: &Stat) -> Result<(), Stop> {
        let mtime = u64::try_from(stat.st_mtime).unwrap_or_default();
        let entry = Entry { name: name.path.clone(), what, mode: stat.st_mode & 0o7777, mtime };
        let mut header = Vec::new();
        write_header(&entry, &mut header);
        self.add(&header)
    }

    fn send(&mut self) -> Result<(), Stop> {
        let length = u32::try_from(self.length).unwrap_or_default().to_le_bytes();
        self.piece[..HEAD].copy_from_slice(&length);
        self.to.write_all(&self.piece[..HEAD + self.length]).map_err(|_| Stop::ReaderGone)?;
        self.length = 0;
        Ok(())
    }

    fn finish(&mut self, trailer: &Trailer) -> Result<(), Stop> {
        if self.length > 0 {
            self.send()?;
        }
        // It consists of strings and numbers, so serialization cannot fail.
        let text = serde_json::to_vec(trailer).map_err(|_| Stop::ReaderGone)?;
        let length = u32::try_from(text.len()).unwrap_or_default().to_le_bytes();
        let last = [&[0; HEAD][..], &length, &text].concat();
        self.to.write_all(&last).and_then(|()| self.to.flush()).map_err(|_| Stop::ReaderGone)
    }
}
