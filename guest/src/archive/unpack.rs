//! Creates the files of an archive. The archive is not trusted: nothing is created outside the directory, and no link is followed.

use std::fs::File;
use std::io::{Read, Write as _};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use koze_protocol::tar::{Contents, Damaged, Entry, MAX_ENTRIES, MODE, Part, Reader, What};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

use super::PIECE;
use crate::files::reopen_file;
use crate::message::{Code, Fault, Place};
use crate::place::{self, fault};
use crate::stream::{BLOCK, MAX_DEPTH};

/// Creates the files of an archive in a directory that exists. On failure, some of them may be left. `most` is the maximum
/// size in bytes.
pub(crate) fn unpack(place: &Place, most: u64, mut from: impl Read) -> Result<Contents, Fault> {
    let at = place::resolve_directory(place)?;
    let root = reopen_file(&at, OFlags::RDONLY | OFlags::DIRECTORY, place)?;
    let mut unpack = Unpack {
        place,
        root,
        open: Vec::new(),
        file: None,
        modes: Vec::new(),
        left: most,
        longest: getrlimit(Resource::Fsize).current.unwrap_or(u64::MAX),
        contents: Contents::default(),
    };
    let (mut reader, mut buffer) = (Reader::default(), vec![0; PIECE]);
    loop {
        // The sender's own error says more than this one.
        let read = from.read(&mut buffer).map_err(|_| incomplete_archive(place))?;
        if read == 0 {
            break;
        }
        // Bytes after the end are ignored.
        if reader.finish().is_ok() {
            continue;
        }
        reader.add(&buffer[..read]);
        while let Some(part) = reader.part().map_err(damaged_archive)? {
            match part {
                Part::Entry(entry) => unpack.entry(entry)?,
                Part::Content(content) => unpack.content(&content)?,
            }
        }
    }
    reader.finish().map_err(|_| incomplete_archive(place))?;
    unpack.finish()
}

struct Unpack<'a> {
    place: &'a Place,
    root: OwnedFd,
    /// The directory of the last entry, and those above it, by name.
    open: Vec<(String, OwnedFd)>,
    /// The file whose content arrives, its size, and what is left of it.
    file: Option<(File, u32, u64)>,
    /// Modes of directories are set last, because a directory may be read-only.
    modes: Vec<(String, u32)>,
    left: u64,
    longest: u64,
    contents: Contents,
}

impl Unpack<'_> {
    fn entry(&mut self, entry: Entry) -> Result<(), Fault> {
        let Entry { name, what, mode, .. } = entry;
        if name.is_empty() {
            self.modes.push((name, mode));
            return Ok(());
        }
        self.contents.entries += 1;
        if self.contents.entries > MAX_ENTRIES {
            return Err(damaged_archive(Damaged("it has too many entries")));
        }
        self.take(BLOCK)?;
        let (above, last) = name.rsplit_once('/').unwrap_or(("", &name));
        self.enter(above)?;
        let failed = |error: Errno| fault(&error.into(), &self.absolute(&name));
        let directory = self.innermost();
        match what {
            What::Directory => {
                match rustix::fs::mkdirat(directory, last, Mode::RWXU) {
                    // It may have been created for an earlier entry.
                    Ok(()) | Err(Errno::EXIST) => {}
                    Err(error) => return Err(failed(error)),
                }
                self.modes.push((name, mode));
            }
            What::Link(target) => rustix::fs::symlinkat(target, directory, last).map_err(failed)?,
            What::File(size) => {
                if size > self.left {
                    return Err(failed(Errno::NOSPC));
                }
                // Exceeding this limit would make the kernel kill this process.
                if size > self.longest {
                    return Err(failed(Errno::FBIG));
                }
                let flags =
                    OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let file = rustix::fs::openat(directory, last, flags, Mode::RUSR | Mode::WUSR);
                self.file = Some((File::from(file.map_err(failed)?), mode, size));
                self.contents.bytes = self.contents.bytes.saturating_add(size);
                self.content(&[])?;
            }
        }
        Ok(())
    }

    fn content(&mut self, content: &[u8]) -> Result<(), Fault> {
        self.take(content.len() as u64)?;
        let Some((file, mode, left)) = &mut self.file else { return Ok(()) };
        file.write_all(content).map_err(|error| fault(&error, &self.place.path))?;
        *left -= content.len() as u64;
        if *left == 0 {
            let mode = Mode::from_raw_mode(*mode & MODE);
            rustix::fs::fchmod(&*file, mode).map_err(|error| fault(&error.into(), &self.place.path))?;
            self.file = None;
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Contents, Fault> {
        for (name, mode) in std::mem::take(&mut self.modes).into_iter().rev() {
            self.enter(&name)?;
            let mode = Mode::from_raw_mode(mode & MODE);
            rustix::fs::fchmod(self.innermost(), mode)
                .map_err(|error| fault(&error.into(), &self.absolute(&name)))?;
        }
        Ok(self.contents)
    }

    /// Opens a directory, and creates it if an archive does not list it first.
    fn enter(&mut self, path: &str) -> Result<(), Fault> {
        let names: Vec<&str> = path.split('/').filter(|name| !name.is_empty()).collect();
        let same = self.open.iter().zip(&names).take_while(|((open, _), name)| open == *name).count();
        self.open.truncate(same);
        if names.len() > MAX_DEPTH {
            let text = format!("{} is more than {MAX_DEPTH} directories deep", self.absolute(path));
            return Err(Fault::new(Code::TooLarge, text));
        }
        for name in &names[same..] {
            let failed = |error: Errno| fault(&error.into(), &self.absolute(path));
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let opened = match rustix::fs::openat(self.innermost(), *name, flags, Mode::empty()) {
                Err(Errno::NOENT) => {
                    rustix::fs::mkdirat(self.innermost(), *name, Mode::from_raw_mode(0o755))
                        .map_err(failed)?;
                    rustix::fs::openat(self.innermost(), *name, flags, Mode::empty())
                }
                opened => opened,
            };
            self.open.push(((*name).to_owned(), opened.map_err(failed)?));
        }
        Ok(())
    }

    fn innermost(&self) -> BorrowedFd<'_> {
        self.open.last().map_or(self.root.as_fd(), |(_, directory)| directory.as_fd())
    }

    fn take(&mut self, bytes: u64) -> Result<(), Fault> {
        let full = || fault(&Errno::NOSPC.into(), &self.place.path);
        self.left = self.left.checked_sub(bytes).ok_or_else(full)?;
        Ok(())
    }

    fn absolute(&self, path: &str) -> String {
        format!("{}/{path}", self.place.path)
    }
}

fn damaged_archive(Damaged(why): Damaged) -> Fault {
    Fault::new(Code::InvalidInput, format!("the archive is damaged: {why}"))
}

/// Returns the error for an archive that ends early. Only its sender knows the cause.
fn incomplete_archive(place: &Place) -> Fault {
    Fault::new(Code::Unavailable, format!("{}: the archive is incomplete", place.path))
}
