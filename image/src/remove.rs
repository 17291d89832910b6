//! Removes trees of an image, whatever their depth and modes.

use std::ffi::CStr;
use std::fs;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

/// Removes a directory and everything below it. It neither recurses nor follows links: what is two levels below is moved to
/// the top, so the depth of the tree does not matter.
pub(crate) fn remove_tree(directory: &Path) -> io::Result<()> {
    // Moving and emptying a directory requires access to it, also for its owner.
    fs::set_permissions(directory, fs::Permissions::from_mode(0o700))?;
    let top = open_directory(CWD, directory)?;
    let mut moved = 0;
    loop {
        let mut is_empty = true;
        for_each_entry(&top, |name, is_directory| {
            is_empty = false;
            if !is_directory {
                return rustix::fs::unlinkat(&top, name, AtFlags::empty());
            }
            let below = open_directory(top.as_fd(), name)?;
            for_each_entry(&below, |inner, is_directory| {
                if is_directory {
                    return move_to_top(&below, inner, &top, &mut moved);
                }
                rustix::fs::unlinkat(&below, inner, AtFlags::empty())
            })?;
            match rustix::fs::unlinkat(&top, name, AtFlags::REMOVEDIR) {
                // A directory that changes while it is read may not show all entries: the next pass does.
                Err(Errno::NOTEMPTY) => Ok(()),
                removed => removed,
            }
        })?;
        if is_empty {
            return fs::remove_dir(directory);
        }
    }
}

/// Calls a function with the name of each entry and whether it is a directory, which is then accessible.
fn for_each_entry(
    directory: &OwnedFd,
    mut visit: impl FnMut(&CStr, bool) -> rustix::io::Result<()>,
) -> rustix::io::Result<()> {
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        let stat = rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
        let is_directory = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
        if is_directory && stat.st_mode & 0o700 != 0o700 {
            rustix::fs::chmodat(directory, name, Mode::RWXU, AtFlags::empty())?;
        }
        visit(name, is_directory)?;
    }
    Ok(())
}

/// Moves a directory to the top, under a name that is free there.
fn move_to_top(from: &OwnedFd, name: &CStr, top: &OwnedFd, moved: &mut u64) -> rustix::io::Result<()> {
    loop {
        *moved += 1;
        let free = format!(".koze-{moved}");
        match rustix::fs::renameat_with(from, name, top, free, RenameFlags::NOREPLACE) {
            Err(Errno::EXIST) => {}
            done => return done,
        }
    }
}

/// Opens a directory, and not what a link names.
fn open_directory<P: rustix::path::Arg>(from: BorrowedFd, path: P) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(from, path, flags, Mode::empty())
}
