//! Creates the entries of a new root, which is the current directory. The root of an image may have links in their places, and the
//! links' targets would be on the host. So no link is followed: what is in the way is replaced.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path};

use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, fstat, mkdirat, openat, symlinkat, unlinkat};
use rustix::io::Errno;

/// The mode of new directories and files, before the umask.
const DIRECTORY: Mode = Mode::from_raw_mode(0o755);
const FILE: Mode = Mode::from_raw_mode(0o644);

/// Creates a directory with its parents where they are missing. From then on, its path contains no links.
pub(super) fn create_directory(path: &Path) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut directory = openat(CWD, ".", flags, Mode::empty())?;
    for part in path.components() {
        let Component::Normal(name) = part else { return Err(io::ErrorKind::InvalidInput.into()) };
        directory = match openat(&directory, name, flags, Mode::empty()) {
            Ok(next) => next,
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {
                remove_file(directory.as_fd(), Path::new(name))?;
                mkdirat(&directory, name, DIRECTORY)?;
                openat(&directory, name, flags, Mode::empty())?
            }
            Err(error) => return Err(error.into()),
        };
    }
    Ok(directory)
}

/// Creates a file with this content, in place of what is there.
pub(super) fn create_file(path: &Path, content: &str) -> io::Result<()> {
    let (directory, name) = open_parent(path)?;
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let create = || openat(&directory, name, flags, FILE);
    let file = match create() {
        Err(Errno::EXIST) => {
            remove_file(directory.as_fd(), name)?;
            create()?
        }
        created => created?,
    };
    io::Write::write_all(&mut std::fs::File::from(file), content.as_bytes())
}

/// Creates a symbolic link, in place of what is there.
pub(super) fn create_link(path: &Path, target: &str) -> io::Result<()> {
    let (directory, name) = open_parent(path)?;
    match symlinkat(target, &directory, name) {
        Err(Errno::EXIST) => {
            remove_file(directory.as_fd(), name)?;
            Ok(symlinkat(target, &directory, name)?)
        }
        created => Ok(created?),
    }
}

/// Returns whether a path without links leads to a file.
pub(super) fn is_file(path: &Path) -> bool {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let open = || {
        let mut entry = openat(CWD, ".", flags, Mode::empty())?;
        for part in path.components() {
            entry = openat(&entry, part.as_os_str(), flags, Mode::empty())?;
        }
        fstat(&entry)
    };
    open().is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile)
}

fn open_parent(path: &Path) -> io::Result<(OwnedFd, &Path)> {
    let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    Ok((create_directory(parent)?, Path::new(name)))
}

/// Removes an entry that is not a directory, if it exists.
fn remove_file(directory: BorrowedFd<'_>, name: &Path) -> io::Result<()> {
    match unlinkat(directory, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
