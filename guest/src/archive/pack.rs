//! The sending end.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read as _, Write};
use std::os::fd::{AsFd as _, OwnedFd};

use koze_protocol::tar::{Contents, Entry, MAX_ENTRIES, What, end, padding, write_header};
use rustix::fs::{OFlags, Stat};
use rustix::io::Errno;

use super::{PIECE, Trailer};
use crate::files::again;
use crate::message::{Code, Fault, Place};
use crate::place::{self, PROC, fault};
use crate::stream::{MAX_ATTEMPTS, MAX_DEPTH, Opened, Stop, look};
use crate::tree;

/// Files up to this size are read before their header is written, so that they may change meanwhile.
const SMALL: usize = 128 << 10;
/// The length prefix of a piece.
const HEAD: usize = 4;

/// Archives a directory. Returns the error of the archive; that of the reader is its own.
pub(crate) fn pack(place: &Place, to: impl Write) -> Result<(), Fault> {
    let mut pack = Pack { out: Out::new(to), place, open: Vec::new(), contents: Contents::default() };
    let packed = pack.all();
    let trailer = match packed {
        Ok(()) => Trailer::Ok(pack.contents),
        Err(Stop::ReaderGone) => return Ok(()),
        Err(Stop::Fault(fault)) => Trailer::Failed(fault),
    };
    let _ = pack.out.finish(&trailer);
    match trailer {
        Trailer::Ok(_) => Ok(()),
        Trailer::Failed(fault) => Err(fault),
    }
}

/// A directory in progress: its path below the archived one, and the names that remain, the next one last.
struct Open {
    path: String,
    directory: OwnedFd,
    device: u64,
    left: Vec<OsString>,
}

struct Pack<'a, W: Write> {
    out: Out<W>,
    place: &'a Place,
    open: Vec<Open>,
    contents: Contents,
}

impl<W: Write> Pack<'_, W> {
    fn all(&mut self) -> Result<(), Stop> {
        let at = place::directory(self.place)?;
        let stat = at.stat().map_err(|error| fault(&error, &self.place.path))?;
        let directory = again(&at, OFlags::RDONLY | OFlags::DIRECTORY, self.place)?;
        self.directory(String::new(), directory, &stat)?;
        while let Some(open) = self.open.last_mut() {
            match open.left.pop() {
                Some(name) => self.entry(&name)?,
                None => drop(self.open.pop()),
            }
        }
        self.out.add(&end())
    }

    /// Archives an entry of the innermost directory. The entry may change at any time.
    fn entry(&mut self, name: &OsStr) -> Result<(), Stop> {
        let Some(open) = self.open.last() else { return Ok(()) };
        let below =
            |name: &str| if open.path.is_empty() { name.to_owned() } else { format!("{}/{name}", open.path) };
        let Some(path) = name.to_str().map(below) else {
            let message = format!(
                "the name of `{}` is not UTF-8: rename it, or remove it",
                self.absolute(&below(&name.to_string_lossy()))
            );
            return Err(Fault::new(Code::Unsupported, message).into());
        };
        for _ in 0..MAX_ATTEMPTS {
            let Some(open) = self.open.last() else { break };
            match look(open.directory.as_fd(), name) {
                Ok((Opened::File(file), stat)) => return self.file(path, file, &stat),
                Ok((Opened::Directory(directory), stat)) => {
                    self.count(0)?;
                    return self.directory(path, directory, &stat);
                }
                Ok((Opened::Link(target), stat)) => {
                    self.count(0)?;
                    // Not every host could create it again.
                    let Ok(target) = String::from_utf8(target) else {
                        let at = self.absolute(&path);
                        let message = format!(
                            "the target of the link `{at}` is not UTF-8: change it, or remove the link"
                        );
                        return Err(Fault::new(Code::Unsupported, message).into());
                    };
                    return self.header(path, What::Link(target), &stat);
                }
                // A socket, pipe or device is of no use elsewhere.
                Ok((Opened::Other, _)) => {
                    self.contents.skipped += 1;
                    return Ok(());
                }
                // It was removed meanwhile.
                Err(Errno::NOENT) => return Ok(()),
                // Its type has changed.
                Err(Errno::LOOP | Errno::NOTDIR | Errno::INVAL | Errno::NXIO) => {}
                Err(error) => return Err(fault(&error.into(), &self.absolute(&path)).into()),
            }
        }
        Err(self.changed(&path))
    }

    fn directory(&mut self, path: String, directory: OwnedFd, stat: &Stat) -> Result<(), Stop> {
        let failed = |error: &io::Error| fault(error, &self.absolute(&path));
        if self.open.len() >= MAX_DEPTH {
            let text = format!("{} is more than {MAX_DEPTH} directories deep", self.absolute(&path));
            return Err(Fault::new(Code::TooLarge, text).into());
        }
        // Of the processes there, one is the guest itself.
        if self.open.last().is_none_or(|above| above.device != stat.st_dev)
            && rustix::fs::fstatfs(&directory).map_or(true, |about| about.f_type == PROC)
        {
            return Err(failed(&Errno::ACCESS.into()).into());
        }
        let mut left = tree::names(&directory).map_err(|error| failed(&error))?;
        left.sort_unstable_by(|one, other| other.cmp(one));
        self.header(path.clone(), What::Directory, stat)?;
        self.open.push(Open { path, directory, device: stat.st_dev, left });
        Ok(())
    }

    fn file(&mut self, path: String, mut file: File, stat: &Stat) -> Result<(), Stop> {
        let absolute = self.absolute(&path);
        let failed = |error: io::Error| Stop::Fault(fault(&error, &absolute));
        let size = u64::try_from(stat.st_size).unwrap_or_default();
        if size <= SMALL as u64 {
            let mut content = Vec::with_capacity(usize::try_from(size).unwrap_or(SMALL) + 1);
            (&mut file).take(SMALL as u64 + 1).read_to_end(&mut content).map_err(failed)?;
            if content.len() > SMALL {
                return Err(self.changed(&path));
            }
            let size = content.len() as u64;
            self.count(size)?;
            self.header(path, What::File(size), stat)?;
            self.out.add(&content)?;
            return self.out.add(&padding(size));
        }
        self.count(size)?;
        self.header(path.clone(), What::File(size), stat)?;
        let mut left = size;
        while left > 0 {
            let room = self.out.room()?;
            let most = usize::try_from(left).unwrap_or(usize::MAX).min(room.len());
            match file.read(&mut room[..most]) {
                Ok(0) => return Err(self.changed(&path)),
                Ok(read) => {
                    self.out.length += read;
                    left -= read as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(failed(error)),
            }
        }
        self.out.add(&padding(size))
    }

    fn header(&mut self, name: String, what: What, stat: &Stat) -> Result<(), Stop> {
        let mtime = u64::try_from(stat.st_mtime).unwrap_or_default();
        let entry = Entry { name, what, mode: stat.st_mode & 0o7777, mtime };
        let mut header = Vec::new();
        write_header(&entry, &mut header);
        self.out.add(&header)
    }

    fn count(&mut self, bytes: u64) -> Result<(), Stop> {
        self.contents.entries += 1;
        self.contents.bytes += bytes;
        if self.contents.entries <= MAX_ENTRIES {
            return Ok(());
        }
        let message = format!("`{}` has more than {MAX_ENTRIES} files and directories", self.place.path);
        Err(Fault::new(Code::TooLarge, message).into())
    }

    fn absolute(&self, path: &str) -> String {
        if path.is_empty() { self.place.path.clone() } else { format!("{}/{path}", self.place.path) }
    }

    fn changed(&self, path: &str) -> Stop {
        let text = format!("`{}` was changed while it was archived: try again", self.absolute(path));
        Fault::new(Code::Unavailable, text).into()
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
