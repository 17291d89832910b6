//! Resolves paths and confines them to a root directory.
//!
//! A path is opened with `O_PATH`, which neither blocks nor has side effects. The kernel reports where the descriptor
//! is (`/proc/self/fd`), and that location is compared with the root. All further operations use the descriptor, so a
//! symbolic link that changes meanwhile has no effect. `RESOLVE_BENEATH` would reject absolute links that stay inside
//! the root.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;

use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use crate::message::{Code, Fault, Place};

/// The maximum length of a path in bytes.
const MAX_LENGTH: usize = 4096;
/// The directories that are the system's in every sandbox.
const SYSTEM: [&str; 11] =
    ["bin", "boot", "dev", "etc", "lib", "lib64", "proc", "root", "sbin", "sys", "usr"];
/// `PROC_SUPER_MAGIC`: the type of the `/proc` file system.
pub(crate) const PROC: i64 = 0x9fa0;

/// A resolved path: a descriptor opened with `O_PATH`, and its location at that moment.
pub(crate) struct At {
    pub(crate) descriptor: OwnedFd,
    pub(crate) real: Vec<u8>,
}

impl At {
    /// Returns a path through which the kernel opens this same file again.
    pub(crate) fn handle(&self) -> String {
        format!("/proc/self/fd/{}", self.descriptor.as_raw_fd())
    }

    /// Describes it.
    pub(crate) fn stat(&self) -> io::Result<rustix::fs::Stat> {
        Ok(rustix::fs::fstat(&self.descriptor)?)
    }
}

/// Validates the syntax of a path.
pub(crate) fn check_path(path: &str) -> Result<(), Fault> {
    if path.starts_with('/') && path.len() <= MAX_LENGTH && !path.contains('\0') {
        return Ok(());
    }
    let text = format!("a path must be absolute, have at most {MAX_LENGTH} bytes, and contain no NUL byte");
    Err(Fault::new(Code::InvalidInput, text))
}

/// Resolves a path. `follow` says whether to follow a final symbolic link.
pub(crate) fn resolve_place(place: &Place, follow: bool) -> Result<At, Fault> {
    check_path(&place.path)?;
    check_path(&place.root)?;
    let flags = if follow { OFlags::empty() } else { OFlags::NOFOLLOW };
    let at = open_at(&place.path, flags).map_err(|error| fault(&error, &place.path))?;
    confine_to_root(at, place)
}

/// Resolves the parent directory of a path, and returns it with the last name. A final link is not followed.
pub(crate) fn resolve_entry(place: &Place) -> Result<(At, OsString), Fault> {
    entry_with(place, false)
}

/// The same, but creates missing parent directories.
pub(crate) fn entry_made(place: &Place) -> Result<(At, OsString), Fault> {
    entry_with(place, true)
}

fn entry_with(place: &Place, make: bool) -> Result<(At, OsString), Fault> {
    check_path(&place.path)?;
    let (above, name) = split_name(&place.path);
    if matches!(name, "" | "." | "..") {
        // The name is only known after the path is resolved.
        let real = resolve_place(place, true)?.real;
        let cut = real.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
        let (above, name) = (&real[..cut.max(1)], &real[cut + 1..]);
        if name.is_empty() {
            return Err(Fault::new(
                Code::InvalidInput,
                "the root directory of the sandbox cannot be changed",
            ));
        }
        let at = open_at(above, OFlags::DIRECTORY).map_err(|error| fault(&error, &place.path))?;
        return Ok((confine_to_root(at, place)?, OsString::from_vec(name.to_vec())));
    }
    let above = Place { root: place.root.clone(), path: above.to_owned() };
    let at = if make { make_dir(&above)? } else { resolve_directory(&above)? };
    Ok((at, name.into()))
}

/// Resolves a directory.
pub(crate) fn resolve_directory(place: &Place) -> Result<At, Fault> {
    let at = resolve_place(place, true)?;
    let stat = at.stat().map_err(|error| fault(&error, &place.path))?;
    if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
        return Ok(at);
    }
    Err(Fault::new(Code::NotADirectory, format!("{} is not a directory", place.path)))
}

/// Resolves a directory. Creates it and its parents if they do not exist.
pub(crate) fn make_dir(place: &Place) -> Result<At, Fault> {
    let at = |path: &str| Place { root: place.root.clone(), path: path.to_owned() };
    // Goes up to the first existing directory, then creates the missing ones. A loop, because a path may be deeper than
    // the stack.
    let (mut path, mut missing) = (&*place.path, Vec::new());
    let mut above = loop {
        match resolve_directory(&at(path)) {
            Err(fault) if fault.why == Code::NotFound && path != "/" => missing.push(path),
            done => break done?,
        }
        path = split_name(path).0;
    };
    for path in missing.into_iter().rev() {
        above = match rustix::fs::mkdirat(&above.descriptor, split_name(path).1, Mode::from_raw_mode(0o755)) {
            // Another process may have created it, or it may be a dangling link.
            Ok(()) | Err(Errno::EXIST) => resolve_directory(&at(path))?,
            Err(error) => return Err(fault(&error.into(), path)),
        };
    }
    Ok(above)
}

/// Splits a path into its parent and its last name. Trailing slashes are ignored.
fn split_name(path: &str) -> (&str, &str) {
    let (above, name) = path.trim_end_matches('/').rsplit_once('/').unwrap_or(("", ""));
    (if above.is_empty() { "/" } else { above }, name)
}

/// Opens a directory at a path that the kernel reported, if it is still the same one.
pub(crate) fn open_known(real: &[u8], place: &Place) -> Result<At, Fault> {
    let at = open_at(real, OFlags::DIRECTORY).map_err(|error| fault(&error, &place.path))?;
    if at.real == real { confine_to_root(at, place) } else { Err(escape_fault(place)) }
}

fn open_at(path: impl rustix::path::Arg, flags: OFlags) -> io::Result<At> {
    // A magic link would lead to what the guest itself has open.
    let descriptor = rustix::fs::openat2(
        CWD,
        path,
        OFlags::PATH | OFlags::CLOEXEC | flags,
        Mode::empty(),
        ResolveFlags::NO_MAGICLINKS,
    )?;
    let handle = format!("/proc/self/fd/{}", descriptor.as_raw_fd());
    let real = rustix::fs::readlinkat(CWD, handle, Vec::new())?.into_bytes();
    Ok(At { descriptor, real })
}

fn confine_to_root(at: At, place: &Place) -> Result<At, Fault> {
    if of_the_guest(&at) {
        return Err(Fault::new(Code::PermissionDenied, format!("{} is not accessible to tools", place.path)));
    }
    if is_inside(&at.real, &place.root)? { Ok(at) } else { Err(escape_fault(place)) }
}

/// Returns whether a path is in `/proc` of the guest itself, which may read and write its own memory and environment.
/// Each of its threads has its own number there.
fn of_the_guest(at: &At) -> bool {
    if at.real.starts_with(b"/proc/1/") {
        return true;
    }
    let own = |name: &[u8]| {
        let number = std::str::from_utf8(name).ok().and_then(|name| name.parse::<u32>().ok());
        number.is_some_and(|number| {
            rustix::fs::access(format!("/proc/self/task/{number}"), rustix::fs::Access::EXISTS).is_ok()
        })
    };
    // If the type of the file system is unknown, the path is checked too.
    let proc = rustix::fs::fstatfs(&at.descriptor).map_or(true, |kind| kind.f_type == PROC);
    proc && at.real.split(|byte| *byte == b'/').any(own)
}

fn is_inside(real: &[u8], root: &str) -> Result<bool, Fault> {
    if root == "/" {
        return Ok(real.starts_with(b"/"));
    }
    let root = open_at(root, OFlags::DIRECTORY).map_err(|error| fault(&error, root))?.real;
    Ok(real.strip_prefix(&root[..]).is_some_and(|rest| rest.is_empty() || rest[0] == b'/' || root == b"/"))
}

fn escape_fault(place: &Place) -> Fault {
    Fault::new(Code::PathEscape, format!("{} is outside of {}", place.path, place.root))
}

/// Returns whether a path leads to a directory that is the system's in every sandbox.
fn is_of_system(path: &str) -> bool {
    let first = path.trim_start_matches('/').split('/').next();
    path.starts_with('/') && first.is_some_and(|first| SYSTEM.contains(&first))
}

/// Converts an error of the kernel for a path.
pub(crate) fn fault(error: &io::Error, path: &str) -> Fault {
    let (why, what) = match error.raw_os_error() {
        Some(libc::ENOENT) => (Code::NotFound, "does not exist"),
        Some(libc::EEXIST | libc::ENOTEMPTY) => (Code::AlreadyExists, "already exists"),
        Some(libc::EISDIR) => (Code::IsDirectory, "is a directory, not a file"),
        Some(libc::ENOTDIR) => (Code::NotADirectory, "has a parent that is not a directory"),
        Some(libc::EACCES | libc::EPERM) if is_of_system(path) => {
            (Code::PermissionDenied, "belongs to the system, and the sandbox's user may not access it")
        }
        Some(libc::EACCES | libc::EPERM) => {
            let what = "cannot be accessed: permission denied; its owner can allow it with `chmod u+rwX`";
            (Code::PermissionDenied, what)
        }
        Some(libc::EROFS | libc::EBUSY) => {
            (Code::PermissionDenied, "belongs to the system and cannot be changed")
        }
        Some(libc::ELOOP) => {
            (Code::InvalidInput, "has too many levels of symbolic links, or one that tools may not follow")
        }
        Some(libc::ENAMETOOLONG) => {
            (Code::InvalidInput, "is too long: at most 4095 bytes, and 255 for each name")
        }
        Some(libc::EINVAL) => (Code::InvalidInput, "is not valid for this operation"),
        // The file system may be the sandbox's own, or that of its machine.
        Some(libc::ENOSPC) => {
            (Code::TooLarge, "does not fit: the disk of the sandbox, or of its machine, is full")
        }
        Some(libc::EDQUOT | libc::EFBIG) => (Code::TooLarge, "does not fit on the sandbox's disk"),
        Some(libc::EMFILE | libc::ENFILE | libc::ENOMEM) => {
            (Code::Unavailable, "cannot be opened: too many files are open")
        }
        _ => return Fault::new(Code::Internal, format!("{path}: {error}")),
    };
    Fault::new(why, format!("{path} {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_denied_says_whose_it_is() {
        let denied = io::Error::from_raw_os_error(libc::EACCES);
        for (path, said) in [
            ("/usr/x", "belongs to the system"),
            ("/etc/shadow", "belongs to the system"),
            ("/usrlocal/x", "`chmod u+rwX`"),
            ("/home/user/x", "`chmod u+rwX`"),
            ("usr/x", "`chmod u+rwX`"),
        ] {
            let fault = fault(&denied, path);
            assert!(fault.text.starts_with(path) && fault.text.contains(said), "{}", fault.text);
        }
    }
}
