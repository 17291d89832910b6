//! Removes and copies trees through descriptors, so that no link is ever followed.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use koze_protocol::tar::MODE;
use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;

/// The maximum depth with one descriptor per level. Deeper entries are first moved up.
const MAX_DEPTH: usize = 100;
/// The maximum depth of a copy: each level takes two descriptors and part of the stack.
const MAX_COPY_DEPTH: usize = 400;
/// How often to empty a directory while a program keeps writing to it.
const MAX_ATTEMPTS: usize = 100;

/// Returns a random, unused name.
pub(crate) fn unused_name() -> io::Result<OsString> {
    let mut bytes = [0; 8];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    Ok(format!(".koze-{:016x}", u64::from_ne_bytes(bytes)).into())
}

/// Removes an entry of a directory with all its content.
///
/// With `force`, unreadable or unwritable directories are made accessible first.
///
/// # Errors
/// The errors of the kernel.
pub fn remove(directory: BorrowedFd<'_>, name: &OsStr, force: bool) -> io::Result<()> {
    let mut removal = Removal { top: directory, moved: Vec::new(), force };
    removal.entry(directory, name, 0)?;
    while let Some(name) = removal.moved.pop() {
        removal.entry(directory, &name, 0)?;
    }
    Ok(())
}

struct Removal<'a> {
    top: BorrowedFd<'a>,
    /// The entries that were too deep and were moved to the top.
    moved: Vec<OsString>,
    force: bool,
}

impl Removal<'_> {
    fn entry(&mut self, directory: BorrowedFd<'_>, name: &OsStr, depth: usize) -> io::Result<()> {
        match rustix::fs::unlinkat(directory, name, AtFlags::empty()) {
            Err(Errno::ISDIR) => {}
            Err(Errno::NOENT) if depth > 0 => return Ok(()),
            done => return Ok(done?),
        }
        for _ in 0..MAX_ATTEMPTS {
            match rustix::fs::unlinkat(directory, name, AtFlags::REMOVEDIR) {
                Err(Errno::NOTEMPTY) => self.contents(directory, name, depth)?,
                Err(Errno::NOENT) if depth > 0 => return Ok(()),
                done => return Ok(done?),
            }
        }
        Err(Errno::NOTEMPTY.into())
    }

    fn contents(&mut self, directory: BorrowedFd<'_>, name: &OsStr, depth: usize) -> io::Result<()> {
        if self.force {
            let path = OFlags::PATH | OFlags::NOFOLLOW | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let opened = rustix::fs::openat(directory, name, path, Mode::empty())?;
            rustix::fs::chmodat(CWD, path_of(&opened), Mode::RWXU, AtFlags::empty())?;
        }
        let opened = open_directory(directory, name)?;
        for name in list_names(&opened)? {
            if depth < MAX_DEPTH {
                self.entry(opened.as_fd(), &name, depth + 1)?;
                continue;
            }
            let up = unused_name()?;
            rustix::fs::renameat(&opened, &name, self.top, &up)?;
            self.moved.push(up);
        }
        Ok(())
    }
}

/// Copies files, directories and links with their permission bits to a name that does not exist. Pipes, sockets and
/// devices are rejected.
pub(crate) fn copy_entry(
    from: BorrowedFd<'_>,
    old: &OsStr,
    to: BorrowedFd<'_>,
    new: &OsStr,
) -> io::Result<()> {
    copy_below(from, old, to, new, 0)
}

fn copy_below(
    from: BorrowedFd<'_>,
    old: &OsStr,
    to: BorrowedFd<'_>,
    new: &OsStr,
    depth: usize,
) -> io::Result<()> {
    if depth > MAX_COPY_DEPTH {
        return Err(Errno::NAMETOOLONG.into());
    }
    let stat = rustix::fs::statat(from, old, AtFlags::SYMLINK_NOFOLLOW)?;
    // The copy belongs to the guest's user, as whom a set-user-ID program must not run.
    let mode = Mode::from_raw_mode(stat.st_mode & MODE);
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => {
            let read = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
            let mut source = File::from(rustix::fs::openat(from, old, read, Mode::empty())?);
            let write = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let mut target = File::from(rustix::fs::openat(to, new, write, Mode::RUSR | Mode::WUSR)?);
            io::copy(&mut source, &mut target)?;
            Ok(rustix::fs::fchmod(&target, mode)?)
        }
        FileType::Directory => {
            let source = open_directory(from, old)?;
            rustix::fs::mkdirat(to, new, Mode::RWXU)?;
            let target = open_directory(to, new)?;
            for name in list_names(&source)? {
                copy_below(source.as_fd(), &name, target.as_fd(), &name, depth + 1)?;
            }
            Ok(rustix::fs::fchmod(&target, mode)?)
        }
        FileType::Symlink => {
            let leads = rustix::fs::readlinkat(from, old, Vec::new())?;
            Ok(rustix::fs::symlinkat(leads, to, new)?)
        }
        _ => Err(Errno::INVAL.into()),
    }
}

fn open_directory(directory: BorrowedFd<'_>, name: &OsStr) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::fs::openat(directory, name, flags, Mode::empty())?)
}

fn path_of(descriptor: &OwnedFd) -> String {
    use std::os::fd::AsRawFd;
    format!("/proc/self/fd/{}", descriptor.as_raw_fd())
}

pub(crate) fn list_names(directory: &OwnedFd) -> io::Result<Vec<OsString>> {
    let mut all = Vec::new();
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if !matches!(name, b"." | b"..") {
            all.push(OsStr::from_bytes(name).to_owned());
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trees_deeper_than_a_path_and_links_to_elsewhere() {
        let scratch = std::env::temp_dir().join(format!("koze-tree-{}", std::process::id()));
        std::fs::create_dir_all(scratch.join("deep")).unwrap();
        std::fs::write(scratch.join("stays"), "x").unwrap();
        let top = File::open(&scratch).unwrap();
        let mut below = open_directory(top.as_fd(), "deep".as_ref()).unwrap();
        for _ in 0..500 {
            rustix::fs::symlinkat("/", &below, "link").unwrap();
            rustix::fs::symlinkat(scratch.join("stays"), &below, "file").unwrap();
            rustix::fs::mkdirat(&below, "d", Mode::RWXU).unwrap();
            below = open_directory(below.as_fd(), "d".as_ref()).unwrap();
        }
        drop(below);
        remove(top.as_fd(), "deep".as_ref(), true).unwrap();
        let left: Vec<_> =
            std::fs::read_dir(&scratch).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, ["stays"]);
        std::fs::remove_dir_all(&scratch).unwrap();
    }
}
