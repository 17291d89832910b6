//! The sending end.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;

use super::{FAILED, HEAD, MAX_ATTEMPTS, MAX_DEPTH, MAX_ENTRIES, PIECE, REASON, Record, UNKNOWN};
use crate::files::{file_mode, reopen_file};
use crate::message::{self, Code, Fault, Place};
use crate::place::{self, fault};
use crate::tree;

/// Why packing stopped.
pub(crate) enum Stop {
    /// The reader is gone. It reports the reason itself.
    ReaderGone,
    Fault(Fault),
}

impl From<Fault> for Stop {
    fn from(fault: Fault) -> Self {
        Stop::Fault(fault)
    }
}

/// Serializes a file or tree. Entries with the name `except` are left out, so that a tree can be copied into itself.
/// `to` should buffer small writes.
///
/// # Errors
/// Those of the kernel, and [`Code::Unsupported`] for pipes, sockets and devices. The reader of the stream gets the same error.
pub fn pack(place: &Place, except: &str, to: impl Write) -> Result<(), Fault> {
    let at = place::resolve_place(place, true)?;
    let stat = at.stat().map_err(|error| fault(&error, &place.path))?;
    let mode = stat.st_mode & 0o7777;
    let mut pack = Pack {
        out: to,
        buffer: vec![0; HEAD + PIECE],
        except: except.as_ref(),
        top: &place.path,
        open: Vec::new(),
        count: 0,
        in_file: false,
    };
    let packed = if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
        let directory = reopen_file(&at, OFlags::RDONLY | OFlags::DIRECTORY, place)?;
        pack.directory(OsString::new(), directory, mode).and_then(|()| pack.below())
    } else {
        file_mode(&at, place)?;
        pack.file(OsStr::new(""), File::from(reopen_file(&at, OFlags::RDONLY, place)?))
    };
    match packed.and_then(|()| pack.record(&Record::End)).and_then(|()| pack.flush()) {
        Ok(()) | Err(Stop::ReaderGone) => Ok(()),
        Err(Stop::Fault(fault)) => {
            // The answer to this call reports it too, but the receiver may have no other way to learn of it.
            let _ = pack.failed(&fault);
            Err(fault)
        }
    }
}

/// A directory in progress: its name, and the entries that remain.
struct Open {
    name: OsString,
    directory: OwnedFd,
    left: Vec<OsString>,
}

struct Pack<'a, W> {
    out: W,
    buffer: Vec<u8>,
    except: &'a OsStr,
    top: &'a str,
    open: Vec<Open>,
    count: usize,
    /// Whether the receiver expects a piece of a file.
    in_file: bool,
}

impl<W: Write> Pack<'_, W> {
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

    /// Packs an entry of the innermost directory. The entry may change at any time.
    fn entry(&mut self, name: &OsStr) -> Result<(), Stop> {
        for _ in 0..MAX_ATTEMPTS {
            let Some(open) = self.open.last() else { break };
            match open_entry(open.directory.as_fd(), name) {
                Ok((Opened::File(file), _)) => return self.file(name, file),
                Ok((Opened::Directory(directory), stat)) => {
                    return self.directory(name.to_owned(), directory, stat.st_mode & 0o7777);
                }
                Ok((Opened::Link(target), _)) => {
                    self.count(name)?;
                    return self.record(&Record::Link { name: name.as_bytes().to_vec(), target });
                }
                Ok((Opened::Other, _)) => {
                    let text = format!(
                        "{} cannot be copied: it is not a file, directory or symbolic link",
                        self.path(name)
                    );
                    return Err(Fault::new(Code::Unsupported, text).into());
                }
                // Removed in the meantime.
                Err(Errno::NOENT) => return Ok(()),
                // Its type has changed.
                Err(Errno::LOOP | Errno::NOTDIR | Errno::INVAL | Errno::NXIO) => {}
                Err(error) => return Err(fault(&error.into(), &self.path(name)).into()),
            }
        }
        let text = format!("{} keeps changing", self.path(name));
        Err(Fault::new(Code::Unavailable, text).into())
    }

    fn directory(&mut self, name: OsString, directory: OwnedFd, mode: u32) -> Result<(), Stop> {
        self.count(&name)?;
        if self.open.len() >= MAX_DEPTH {
            let text = format!("{} is more than {MAX_DEPTH} directories deep", self.path(&name));
            return Err(Fault::new(Code::TooLarge, text).into());
        }
        let left = tree::list_names(&directory).map_err(|error| fault(&error, &self.path(&name)))?;
        self.record(&Record::Directory { name: name.as_bytes().to_vec(), mode })?;
        self.open.push(Open { name, directory, left });
        Ok(())
    }

    /// Packs a file up to its size when it was opened, so that a file that keeps growing also ends.
    fn file(&mut self, name: &OsStr, mut file: File) -> Result<(), Stop> {
        self.count(name)?;
        let stat = rustix::fs::fstat(&file).map_err(|error| fault(&error.into(), &self.path(name)))?;
        self.record(&Record::File { name: name.as_bytes().to_vec(), mode: stat.st_mode & 0o7777 })?;
        self.in_file = true;
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
            self.out.write_all(&self.buffer[..HEAD + read]).map_err(|_| Stop::ReaderGone)?;
            left -= read as u64;
        }
        self.in_file = false;
        self.out.write_all(&[0; HEAD]).map_err(|_| Stop::ReaderGone)
    }

    /// Ends the stream with a failure record.
    fn failed(&mut self, fault: &Fault) -> Result<(), Stop> {
        if self.in_file {
            self.out.write_all(&FAILED.to_le_bytes()).map_err(|_| Stop::ReaderGone)?;
        }
        let cut = fault.text.floor_char_boundary(REASON);
        self.record(&Record::Failed(Fault::new(fault.why, &fault.text[..cut])))?;
        self.flush()
    }

    fn record(&mut self, record: &Record) -> Result<(), Stop> {
        let bytes = message::encode(0, record).map_err(|error| fault(&error, self.top))?;
        self.out.write_all(&bytes).map_err(|_| Stop::ReaderGone)
    }

    fn flush(&mut self) -> Result<(), Stop> {
        self.out.flush().map_err(|_| Stop::ReaderGone)
    }

    fn count(&mut self, name: &OsStr) -> Result<(), Stop> {
        self.count += 1;
        if self.count <= MAX_ENTRIES {
            return Ok(());
        }
        let text =
            format!("{}: {} has more than {MAX_ENTRIES} files and directories", self.path(name), self.top);
        Err(Fault::new(Code::TooLarge, text).into())
    }

    fn path(&self, name: &OsStr) -> String {
        let names = self.open.iter().map(|open| open.name.as_os_str()).chain([name]);
        let below: Vec<_> = names.filter(|name| !name.is_empty()).map(OsStr::to_string_lossy).collect();
        [&[self.top.into()], &below[..]].concat().join("/")
    }
}

/// An opened entry.
pub(crate) enum Opened {
    File(File),
    Directory(OwnedFd),
    Link(Vec<u8>),
    Other,
}

/// Opens an entry of a directory, and describes what was opened.
pub(crate) fn open_entry(directory: BorrowedFd<'_>, name: &OsStr) -> rustix::io::Result<(Opened, Stat)> {
    let stat = rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => {
            let file = rustix::fs::openat(directory, name, flags, Mode::empty())?;
            let stat = rustix::fs::fstat(&file)?;
            if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
                return Err(Errno::INVAL);
            }
            Ok((Opened::File(File::from(file)), stat))
        }
        FileType::Directory => {
            let opened = rustix::fs::openat(directory, name, flags | OFlags::DIRECTORY, Mode::empty())?;
            let stat = rustix::fs::fstat(&opened)?;
            Ok((Opened::Directory(opened), stat))
        }
        FileType::Symlink => {
            let target = rustix::fs::readlinkat(directory, name, Vec::new())?.into_bytes();
            Ok((Opened::Link(target), stat))
        }
        _ => Ok((Opened::Other, stat)),
    }
}
