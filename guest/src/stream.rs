//! A file or tree as a stream: what one guest packs, another unpacks. A record is a message; behind that of a file come
//! its bytes in pieces, each with its length in front, and an empty one at the end.
//!
//! Neither end follows a link below the place it is told. Who unpacks believes nothing: what comes may be from anybody.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use rustix::fs::{AtFlags, FileType, Mode, OFlags};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};
use serde::{Deserialize, Serialize};

use crate::files::{again, file_mode};
use crate::message::{self, Fault, Place, Why};
use crate::place::{self, fault};
use crate::tree;

/// How many bytes of a file are read and written at once. These few stay in a processor's cache, and so do those in the pipe:
/// of eight times as many, each copy takes twice as long.
const PIECE: usize = 32 << 10;
/// What is in front of a piece: how long it is.
const HEAD: usize = 4;
/// The longest record: a name and a link's target.
const RECORD: usize = 16 << 10;
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
}

/// Why packing stopped.
enum Stop {
    /// Nobody reads any more: who did says why.
    Deaf,
    Fault(Fault),
}

impl From<Fault> for Stop {
    fn from(fault: Fault) -> Self {
        Stop::Fault(fault)
    }
}

/// Writes what a place leads to as a stream. What has the name `except` is left out: a copy into itself ends so.
pub(crate) fn pack(place: &Place, except: &str, to: OwnedFd) -> Result<(), Fault> {
    let at = place::resolve(place, true)?;
    let stat = at.stat().map_err(|error| fault(&error, &place.path))?;
    let mode = stat.st_mode & 0o7777;
    let mut pack = Pack {
        out: BufWriter::new(File::from(to)),
        buffer: vec![0; HEAD + PIECE],
        except: except.as_ref(),
        top: &place.path,
        open: Vec::new(),
        count: 0,
    };
    let packed = if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
        let directory = again(&at, OFlags::RDONLY | OFlags::DIRECTORY, place)?;
        pack.directory(OsString::new(), directory, mode).and_then(|()| pack.below())
    } else {
        file_mode(&at, place)?;
        pack.file(OsStr::new(""), File::from(again(&at, OFlags::RDONLY, place)?))
    };
    match packed.and_then(|()| pack.record(&Record::End)).and_then(|()| pack.flush()) {
        Ok(()) | Err(Stop::Deaf) => Ok(()),
        Err(Stop::Fault(fault)) => Err(fault),
    }
}

/// A directory that is packed: its name, and what in it is still to come.
struct Open {
    name: OsString,
    directory: OwnedFd,
    left: Vec<OsString>,
}

struct Pack<'a> {
    out: BufWriter<File>,
    buffer: Vec<u8>,
    except: &'a OsStr,
    top: &'a str,
    open: Vec<Open>,
    count: usize,
}

impl Pack<'_> {
    fn below(&mut self) -> Result<(), Stop> {
        while let Some(open) = self.open.last_mut() {
            match open.left.pop() {
                Some(name) if name == self.except => {}
                Some(name) => self.entry(&name)?,
                None => {
                    self.record(&Record::Up)?;
                    self.open.pop();
                }
            }
        }
        Ok(())
    }

    /// Packs what has the name in the innermost directory. It may become something else under our hands.
    fn entry(&mut self, name: &OsStr) -> Result<(), Stop> {
        for _ in 0..TURNS {
            let Some(open) = self.open.last() else { break };
            match look(open.directory.as_fd(), name) {
                Ok(Found::File(file)) => return self.file(name, file),
                Ok(Found::Directory(directory, mode)) => {
                    return self.directory(name.to_owned(), directory, mode);
                }
                Ok(Found::Link(target)) => {
                    self.count(name)?;
                    return self.record(&Record::Link { name: name.as_bytes().to_vec(), target });
                }
                Ok(Found::Other) => {
                    let text =
                        format!("{} is no file, directory or link, and cannot be copied", self.path(name));
                    return Err(Fault::new(Why::Unsupported, text).into());
                }
                // Gone since.
                Err(Errno::NOENT) => return Ok(()),
                // Something else by now.
                Err(Errno::LOOP | Errno::NOTDIR | Errno::INVAL | Errno::NXIO) => {}
                Err(error) => return Err(fault(&error.into(), &self.path(name)).into()),
            }
        }
        let text = format!("{} changes all the time", self.path(name));
        Err(Fault::new(Why::Unavailable, text).into())
    }

    fn directory(&mut self, name: OsString, directory: OwnedFd, mode: u32) -> Result<(), Stop> {
        self.count(&name)?;
        if self.open.len() >= DEEPEST {
            let text = format!("{} is more than {DEEPEST} directories deep", self.path(&name));
            return Err(Fault::new(Why::TooLarge, text).into());
        }
        let left = tree::names(&directory).map_err(|error| fault(&error, &self.path(&name)))?;
        self.record(&Record::Directory { name: name.as_bytes().to_vec(), mode })?;
        self.open.push(Open { name, directory, left });
        Ok(())
    }

    /// Packs a file as long as it was when it was opened: one that grows all the time comes to an end, too.
    fn file(&mut self, name: &OsStr, mut file: File) -> Result<(), Stop> {
        self.count(name)?;
        let stat = rustix::fs::fstat(&file).map_err(|error| fault(&error.into(), &self.path(name)))?;
        self.record(&Record::File { name: name.as_bytes().to_vec(), mode: stat.st_mode & 0o7777 })?;
        let mut left = match u64::try_from(stat.st_size) {
            Ok(0) | Err(_) => UNKNOWN,
            Ok(size) => size,
        };
        while left > 0 {
            let step = usize::try_from(left).unwrap_or(PIECE).min(PIECE);
            let read = match file.read(&mut self.buffer[HEAD..HEAD + step]) {
                Ok(0) => break,
                Ok(read) => read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(fault(&error, &self.path(name)).into()),
            };
            let length = u32::try_from(read).unwrap_or_default().to_le_bytes();
            self.buffer[..HEAD].copy_from_slice(&length);
            self.out.write_all(&self.buffer[..HEAD + read]).map_err(|_| Stop::Deaf)?;
            left -= read as u64;
        }
        self.out.write_all(&[0; HEAD]).map_err(|_| Stop::Deaf)
    }

    fn record(&mut self, record: &Record) -> Result<(), Stop> {
        let bytes = message::encode(0, record).map_err(|error| fault(&error, self.top))?;
        self.out.write_all(&bytes).map_err(|_| Stop::Deaf)
    }

    fn flush(&mut self) -> Result<(), Stop> {
        self.out.flush().map_err(|_| Stop::Deaf)
    }

    fn count(&mut self, name: &OsStr) -> Result<(), Stop> {
        self.count += 1;
        if self.count <= MOST {
            return Ok(());
        }
        let text = format!("{}: {} has more than {MOST} files and directories", self.path(name), self.top);
        Err(Fault::new(Why::TooLarge, text).into())
    }

    fn path(&self, name: &OsStr) -> String {
        let names = self.open.iter().map(|open| open.name.as_os_str()).chain([name]);
        let below: Vec<_> = names.filter(|name| !name.is_empty()).map(OsStr::to_string_lossy).collect();
        [&[self.top.into()], &below[..]].concat().join("/")
    }
}

enum Found {
    File(File),
    Directory(OwnedFd, u32),
    Link(Vec<u8>),
    Other,
}

/// What has the name in the directory, opened.
fn look(directory: BorrowedFd<'_>, name: &OsStr) -> rustix::io::Result<Found> {
    let stat = rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => {
            let file = rustix::fs::openat(directory, name, flags, Mode::empty())?;
            if FileType::from_raw_mode(rustix::fs::fstat(&file)?.st_mode) != FileType::RegularFile {
                return Err(Errno::INVAL);
            }
            Ok(Found::File(File::from(file)))
        }
        FileType::Directory => {
            let opened = rustix::fs::openat(directory, name, flags | OFlags::DIRECTORY, Mode::empty())?;
            let mode = rustix::fs::fstat(&opened)?.st_mode & 0o7777;
            Ok(Found::Directory(opened, mode))
        }
        FileType::Symlink => {
            Ok(Found::Link(rustix::fs::readlinkat(directory, name, Vec::new())?.into_bytes()))
        }
        _ => Ok(Found::Other),
    }
}

/// Makes at a place, where nothing is, what a stream holds; gives the bytes of its files. Where that fails, or the
/// stream ends too early, all is taken away again. `most` bytes are what there is room for.
pub(crate) fn unpack(place: &Place, most: u64, from: OwnedFd) -> Result<u64, Fault> {
    let (above, name) = place::entry_made(place)?;
    let mut unpack = Unpack {
        from: BufReader::new(File::from(from)),
        buffer: vec![0; PIECE],
        open: Vec::new(),
        made: false,
        path: &place.path,
        left: most,
        longest: getrlimit(Resource::Fsize).current.unwrap_or(u64::MAX),
        bytes: 0,
    };
    let done = unpack.all(above.descriptor.as_fd(), &name);
    if done.is_err() && unpack.made {
        let _ = tree::remove(above.descriptor.as_fd(), &name, true);
    }
    done.map(|()| unpack.bytes)
}

struct Unpack<'a> {
    from: BufReader<File>,
    buffer: Vec<u8>,
    /// The directories that are being filled, with the permission bits they get at the end.
    open: Vec<(OwnedFd, u32)>,
    made: bool,
    path: &'a str,
    left: u64,
    longest: u64,
    bytes: u64,
}

impl Unpack<'_> {
    fn all(&mut self, above: BorrowedFd<'_>, top: &OsStr) -> Result<(), Fault> {
        loop {
            let record = self.record()?;
            // Each takes a place of its own, and none comes behind the first but below it.
            if self.made == self.open.is_empty() && !matches!(record, Record::End) {
                return Err(self.broken());
            }
            match record {
                Record::Directory { name, mode } => {
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
                        let mode = Mode::from_raw_mode(mode & 0o7777);
                        rustix::fs::fchmod(&directory, mode).map_err(|error| self.failed(error))?;
                    }
                }
                Record::End if self.made && self.open.is_empty() => return Ok(()),
                Record::End => return Err(self.broken()),
            }
        }
    }

    /// Makes something: the first of all at the place itself, what follows in the innermost directory.
    fn place<T>(
        &mut self,
        above: BorrowedFd<'_>,
        top: &OsStr,
        name: &[u8],
        make: impl FnOnce(BorrowedFd<'_>, &OsStr) -> rustix::io::Result<T>,
    ) -> Result<T, Fault> {
        self.take(BLOCK)?;
        let done = match self.open.last() {
            None => make(above, top),
            Some(_) if matches!(name, b"" | b"." | b"..") || name.contains(&b'/') => {
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
            let length = u32::from_le_bytes(length) as usize;
            if length == 0 {
                break;
            }
            if length > PIECE {
                return Err(self.broken());
            }
            self.take(length as u64)?;
            size += length as u64;
            // The kernel would end this process.
            if size > self.longest {
                return Err(self.failed(Errno::FBIG));
            }
            self.from.read_exact(&mut self.buffer[..length]).map_err(|_| broken(self.path))?;
            file.write_all(&self.buffer[..length]).map_err(|error| fault(&error, self.path))?;
        }
        self.bytes += size;
        rustix::fs::fchmod(&*file, Mode::from_raw_mode(mode & 0o7777)).map_err(|error| self.failed(error))
    }

    fn record(&mut self) -> Result<Record, Fault> {
        let mut prefix = [0; 4];
        self.from.read_exact(&mut prefix).map_err(|_| self.broken())?;
        let length = message::length(&prefix).ok().filter(|length| *length <= RECORD);
        let body = &mut self.buffer[..length.ok_or_else(|| broken(self.path))?];
        self.from.read_exact(body).map_err(|_| broken(self.path))?;
        message::decode(body).map(|(_, record)| record).map_err(|_| broken(self.path))
    }

    fn take(&mut self, bytes: u64) -> Result<(), Fault> {
        self.left = self.left.checked_sub(bytes).ok_or_else(|| self.failed(Errno::NOSPC))?;
        Ok(())
    }

    fn failed(&self, error: Errno) -> Fault {
        fault(&error.into(), self.path)
    }

    fn broken(&self) -> Fault {
        broken(self.path)
    }
}

/// What came is not a whole stream: its sender knows why, if anybody does.
fn broken(path: &str) -> Fault {
    Fault::new(Why::Unavailable, format!("{path}: what was to come there did not come whole"))
}
