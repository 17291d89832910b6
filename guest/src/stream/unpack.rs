//! The receiving end.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{BufReader, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use koze_protocol::tar::MODE;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

use super::{BLOCK, FAILED, HEAD, MAX_DEPTH, MAX_ENTRIES, PIECE, RECORD, Record};
use crate::message::{self, Code, Fault, Place};
use crate::place::{self, fault};
use crate::tree;

/// Creates the file or tree of a stream at a path that does not exist. Returns the total size of its files. On failure,
/// or if the stream ends early, everything is removed again. `most` is the maximum size in bytes.
///
/// # Errors
/// Those of the kernel and of the sender, and [`Code::Unavailable`] for a stream that ends early.
pub fn unpack(place: &Place, most: u64, from: impl Read) -> Result<u64, Fault> {
    let (above, name) = place::entry_made(place)?;
    let mut unpack = Unpack {
        from: BufReader::new(from),
        buffer: vec![0; PIECE],
        open: Vec::new(),
        made: false,
        path: &place.path,
        left: most,
        longest: getrlimit(Resource::Fsize).current.unwrap_or(u64::MAX),
        bytes: 0,
        count: 0,
    };
    let done = unpack.all(above.descriptor.as_fd(), &name);
    if done.is_err() && unpack.made {
        let _ = tree::remove(above.descriptor.as_fd(), &name, true);
    }
    done.map(|()| unpack.bytes)
}

struct Unpack<'a, R> {
    from: BufReader<R>,
    buffer: Vec<u8>,
    /// The directories in progress, with the permission bits that they get at the end.
    open: Vec<(OwnedFd, u32)>,
    made: bool,
    path: &'a str,
    left: u64,
    longest: u64,
    bytes: u64,
    count: usize,
}

impl<R: Read> Unpack<'_, R> {
    fn all(&mut self, above: BorrowedFd<'_>, top: &OsStr) -> Result<(), Fault> {
        loop {
            let record = self.record()?;
            // The first record creates the root of the tree; all others are inside it.
            if self.made == self.open.is_empty() && !matches!(record, Record::End | Record::Failed(_)) {
                return Err(self.broken());
            }
            match record {
                Record::Directory { name, mode } => {
                    if self.open.len() >= MAX_DEPTH {
                        return Err(self.too_large(format_args!("{MAX_DEPTH} directories deep")));
                    }
                    let made = self.place(above, top, &name, Self::make_directory)?;
                    self.open.push((made, mode));
                }
                Record::File { name, mode } => {
                    let file = self.place(above, top, &name, Self::make_file)?;
                    self.fill(&mut File::from(file), mode)?;
                }
                Record::Link { name, target } => {
                    self.place(above, top, &name, |directory, name| {
                        rustix::fs::symlinkat(OsStr::from_bytes(&target), directory, name)
                    })?;
                }
                Record::Up => {
                    if let Some((directory, mode)) = self.open.pop() {
                        let mode = Mode::from_raw_mode(mode & MODE);
                        rustix::fs::fchmod(&directory, mode).map_err(|error| self.failed(error))?;
                    }
                }
                Record::End if self.made && self.open.is_empty() => return Ok(()),
                Record::End => return Err(self.broken()),
                Record::Failed(fault) => return Err(fault),
            }
        }
    }

    /// Creates an entry: the first one at the path itself, the others in the innermost directory.
    fn place<T>(
        &mut self,
        above: BorrowedFd<'_>,
        top: &OsStr,
        name: &[u8],
        make: impl FnOnce(BorrowedFd<'_>, &OsStr) -> rustix::io::Result<T>,
    ) -> Result<T, Fault> {
        self.take(BLOCK)?;
        self.count += 1;
        if self.count > MAX_ENTRIES {
            return Err(self.too_large(format_args!("{MAX_ENTRIES} files and directories")));
        }
        let done = match self.open.last() {
            None => make(above, top),
            Some(_)
                if matches!(name, b"" | b"." | b"..") || name.iter().any(|byte| b"/\0".contains(byte)) =>
            {
                return Err(self.broken());
            }
            Some((directory, _)) => make(directory.as_fd(), OsStr::from_bytes(name)),
        };
        let done = done.map_err(|error| self.failed(error))?;
        self.made = true;
        Ok(done)
    }

    fn make_directory(directory: BorrowedFd<'_>, name: &OsStr) -> rustix::io::Result<OwnedFd> {
        rustix::fs::mkdirat(directory, name, Mode::RWXU)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        rustix::fs::openat(directory, name, flags, Mode::empty())
    }

    fn make_file(directory: BorrowedFd<'_>, name: &OsStr) -> rustix::io::Result<OwnedFd> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        rustix::fs::openat(directory, name, flags, Mode::RUSR | Mode::WUSR)
    }

    fn fill(&mut self, file: &mut File, mode: u32) -> Result<(), Fault> {
        let mut size = 0;
        loop {
            let mut length = [0; HEAD];
            self.from.read_exact(&mut length).map_err(|_| self.broken())?;
            if u32::from_le_bytes(length) == FAILED {
                let Record::Failed(fault) = self.record()? else { return Err(self.broken()) };
                return Err(fault);
            }
            let length = u32::from_le_bytes(length) as usize;
            if length == 0 {
                break;
            }
            if length > PIECE {
                return Err(self.broken());
            }
            self.take(length as u64)?;
            size += length as u64;
            // Exceeding this limit would make the kernel kill this process.
            if size > self.longest {
                return Err(self.failed(Errno::FBIG));
            }
            self.from.read_exact(&mut self.buffer[..length]).map_err(|_| broken_stream(self.path))?;
            file.write_all(&self.buffer[..length]).map_err(|error| fault(&error, self.path))?;
        }
        self.bytes += size;
        rustix::fs::fchmod(&*file, Mode::from_raw_mode(mode & MODE)).map_err(|error| self.failed(error))
    }

    fn record(&mut self) -> Result<Record, Fault> {
        let mut prefix = [0; 4];
        self.from.read_exact(&mut prefix).map_err(|_| self.broken())?;
        let length = message::length(&prefix).ok().filter(|length| *length <= RECORD);
        let body = &mut self.buffer[..length.ok_or_else(|| broken_stream(self.path))?];
        self.from.read_exact(body).map_err(|_| broken_stream(self.path))?;
        message::decode(body).map(|(_, record)| record).map_err(|_| broken_stream(self.path))
    }

    fn take(&mut self, bytes: u64) -> Result<(), Fault> {
        self.left = self.left.checked_sub(bytes).ok_or_else(|| self.failed(Errno::NOSPC))?;
        Ok(())
    }

    fn failed(&self, error: Errno) -> Fault {
        fault(&error.into(), self.path)
    }

    fn broken(&self) -> Fault {
        broken_stream(self.path)
    }

    fn too_large(&self, most: std::fmt::Arguments<'_>) -> Fault {
        Fault::new(Code::TooLarge, format!("{}: the data is larger than {most}", self.path))
    }
}

/// The error of an incomplete stream. Only its sender may know why.
fn broken_stream(path: &str) -> Fault {
    Fault::new(Code::Unavailable, format!("{path}: the data is incomplete"))
}
