//! Metadata of the host's files: mode, owner, times and extended attributes.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Timespec, Timestamps, UTIME_NOW, XattrFlags};

use super::{Target, nothing};

/// Directories of the host, in which some paths are tried.
const DIRECTORIES: &[&str] = &["/dev", "/usr", "/usr/bin", "/usr/lib", "/etc", "/etc/ssl"];
const PER_DIRECTORY: usize = 200;

pub(super) fn change(_: &Target) -> io::Result<()> {
    let streams = (0..3).map(|number| PathBuf::from(format!("/proc/self/fd/{number}")));
    let below = DIRECTORIES.iter().flat_map(fs::read_dir).flat_map(|all| all.flatten().take(PER_DIRECTORY));
    for path in streams.chain(below.map(|entry| entry.path()).filter(|path| !own(path))) {
        let Ok(about) = fs::metadata(&path) else { continue };
        // A pipe belongs to this call only.
        let pipe = about.file_type().is_fifo() || about.file_type().is_socket();
        if !pipe && changed(&path, &about) {
            eprintln!("{} was changed", path.display());
            return Ok(());
        }
    }
    Err(nothing("none can be changed"))
}

/// Returns whether a file belongs to the sandbox.
fn own(path: &Path) -> bool {
    let real = fs::canonicalize(path).unwrap_or_default();
    ["/proc", "/dev/pts", "/dev/shm", "/tmp"].iter().any(|own| real.starts_with(own))
}

/// Sets the current values again, so that nothing changes.
fn changed(path: &Path, about: &fs::Metadata) -> bool {
    let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
    let now = Timestamps { last_access: now, last_modification: now };
    let mode = about.permissions().mode();
    let by_path = fs::set_permissions(path, fs::Permissions::from_mode(mode)).is_ok()
        || std::os::unix::fs::chown(path, Some(about.uid()), Some(about.gid())).is_ok()
        || rustix::fs::utimensat(rustix::fs::CWD, path, &now, rustix::fs::AtFlags::empty()).is_ok()
        || rustix::fs::setxattr(path, "user.koze", b"x", XattrFlags::empty()).is_ok();
    by_path
        || File::open(path).is_ok_and(|file| {
            let again = format!("/proc/self/fd/{}", file.as_raw_fd());
            rustix::fs::futimens(file.as_fd(), &now).is_ok()
                || rustix::fs::fsetxattr(file.as_fd(), "user.koze", b"x", XattrFlags::empty()).is_ok()
                || fs::set_permissions(again, fs::Permissions::from_mode(mode)).is_ok()
        })
}
