//! Measures the disk usage of a sandbox's files from the host. It follows no links, tolerates concurrent changes, and
//! works regardless of permissions.

use std::collections::HashSet;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

/// The maximum depth of directories. A deeper tree counts as too large, because measuring it would take too many
/// descriptors.
pub(crate) const MAX_DEPTH: usize = 1500;
/// The number of names of 255 bytes that fit in a path. The walk keeps one descriptor per such stretch.
const STRETCH: usize = 15;
/// The result for a tree that is too deep or has too many entries.
pub(crate) const TOO_LARGE: u64 = u64::MAX;
/// The maximum bytes of names of pending directories, which are kept in memory.
const NAMES: usize = 64 << 20;
/// The minimum that a file counts, in bytes.
const ENTRY: u64 = 4096;
/// How many nested directories without access may be opened up at a time.
const SHUT: usize = 50;

/// A pending directory: the path to its parent from an open directory, and its name. Siblings share the path.
struct Waiting {
    from: Rc<OwnedFd>,
    above: Rc<[u8]>,
    name: Box<[u8]>,
    depth: usize,
}

impl Waiting {
    fn path(&self) -> Vec<u8> {
        [&self.above, &b"/"[..], &self.name].concat()
    }
}

/// Walks the files of one sandbox. There is one walk at a time, because a walk temporarily changes permissions.
#[derive(Debug, Default)]
pub(crate) struct Walks {
    one: Mutex<()>,
    stop: AtomicBool,
}

impl Walks {
    /// Returns the disk usage of a directory in bytes. A file with several names counts once. Returns [`TOO_LARGE`] if
    /// there are more than `most` entries, or directories deeper than [`MAX_DEPTH`].
    pub(crate) fn usage(&self, directory: &Path, most: u64) -> io::Result<u64> {
        let _one = self.one.lock().unwrap_or_else(PoisonError::into_inner);
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let top = rustix::fs::open(directory, flags, Mode::empty())?;
        let (seen, stop) = (HashSet::new(), &self.stop);
        Ok(Sum { seen, stop, bytes: 0, left: most, names: 0, shut: 0 }.below(top)?)
    }

    /// Stops a running walk, and prevents new ones while the guard is held.
    pub(crate) fn hold(&self) -> MutexGuard<'_, ()> {
        self.stop.store(true, Ordering::Release);
        let held = self.one.lock().unwrap_or_else(PoisonError::into_inner);
        self.stop.store(false, Ordering::Release);
        held
    }
}

struct Sum<'a> {
    stop: &'a AtomicBool,
    /// Inodes with several names that were already counted.
    seen: HashSet<u64>,
    bytes: u64,
    /// How many more entries are allowed.
    left: u64,
    /// The bytes of pending names.
    names: usize,
    shut: usize,
}

impl Sum<'_> {
    fn below(&mut self, top: OwnedFd) -> rustix::io::Result<u64> {
        let mut waiting =
            vec![Waiting { from: Rc::new(top), above: (*b".").into(), name: (*b".").into(), depth: 0 }];
        while let Some(next) = waiting.pop() {
            self.names = self.names.saturating_sub(next.name.len());
            if next.depth > MAX_DEPTH || self.left == 0 || self.names > NAMES {
                self.bytes = TOO_LARGE;
            }
            if self.bytes == TOO_LARGE {
                break;
            }
            match open_below(&next.from, &next.path(), OFlags::RDONLY) {
                Ok(opened) => self.look(&Rc::new(opened), &next, &mut waiting)?,
                Err(Errno::ACCESS) => self.open_up(&next)?,
                // Removed or replaced in the meantime.
                Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(self.bytes)
    }

    fn look(
        &mut self,
        opened: &Rc<OwnedFd>,
        at: &Waiting,
        waiting: &mut Vec<Waiting>,
    ) -> rustix::io::Result<()> {
        let stretch = at.depth % STRETCH == STRETCH - 1;
        let (from, above): (_, Rc<[u8]>) = if stretch {
            (Rc::clone(opened), (*b".").into())
        } else {
            (Rc::clone(&at.from), at.path().into())
        };
        for entry in Dir::read_from(&**opened)? {
            if self.stop.load(Ordering::Acquire) {
                return Err(Errno::CANCELED);
            }
            let entry = entry?;
            let name = entry.file_name();
            if matches!(name.to_bytes(), b"." | b"..") {
                continue;
            }
            let Some(left) = self.left.checked_sub(1).filter(|_| self.names <= NAMES) else {
                self.bytes = TOO_LARGE;
                return Ok(());
            };
            self.left = left;
            // Removed in the meantime, or in a directory that can be listed but not searched.
            let about = match rustix::fs::statat(&**opened, name, AtFlags::SYMLINK_NOFOLLOW) {
                Err(Errno::ACCESS) => return self.open_up(at),
                Err(_) => continue,
                Ok(about) => about,
            };
            let is_directory = FileType::from_raw_mode(about.st_mode) == FileType::Directory;
            if about.st_nlink < 2 || is_directory || self.seen.insert(about.st_ino) {
                // Empty entries take inodes, whose number is limited.
                self.bytes += (u64::try_from(about.st_blocks).unwrap_or(0) << 9).max(ENTRY);
            }
            if is_directory {
                let name: Box<[u8]> = name.to_bytes().into();
                self.names += name.len();
                let (from, above) = (Rc::clone(&from), Rc::clone(&above));
                waiting.push(Waiting { from, above, name, depth: at.depth + 1 });
            }
        }
        Ok(())
    }

    /// Measures a directory without access permissions. This user is its owner, and opens it temporarily.
    fn open_up(&mut self, shut: &Waiting) -> rustix::io::Result<()> {
        let Ok(held) = open_below(&shut.from, &shut.path(), OFlags::PATH) else { return Ok(()) };
        let handle = format!("/proc/self/fd/{}", held.as_raw_fd());
        let mode = Mode::from_raw_mode(rustix::fs::fstat(&held)?.st_mode & 0o7777);
        if mode.contains(Mode::RWXU) || self.shut >= SHUT {
            // The mode is not the cause, or there are too many such directories: it stays open.
            return rustix::fs::chmodat(CWD, &handle, mode | Mode::RWXU, AtFlags::empty());
        }
        rustix::fs::chmodat(CWD, &handle, mode | Mode::RWXU, AtFlags::empty())?;
        self.shut += 1;
        let looked = self.below(held.try_clone().map_err(|_| Errno::MFILE)?);
        self.shut -= 1;
        rustix::fs::chmodat(CWD, &handle, mode, AtFlags::empty())?;
        looked.map(drop)
    }
}

/// Opens a directory below another. Retries if anything is renamed meanwhile.
fn open_below(from: &OwnedFd, path: &[u8], flags: OFlags) -> rustix::io::Result<OwnedFd> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    let flags = flags | OFlags::DIRECTORY | OFlags::CLOEXEC;
    loop {
        match rustix::fs::openat2(from, path, flags, Mode::empty(), resolve) {
            // Something on this machine was renamed.
            Err(Errno::AGAIN) => {}
            done => return done,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn everything_is_counted() {
        let scratch = tempfile::tempdir().unwrap();
        let mut path = scratch.path().join("top");
        fs::create_dir(&path).unwrap();
        let empty = Walks::default().usage(scratch.path(), 1000).unwrap();
        std::os::unix::fs::symlink("/usr", path.join("link")).unwrap();
        // A path that is longer than the kernel's limit, and inaccessible.
        let mut below = fs::File::open(&path).unwrap();
        for _ in 0..40 {
            let name = "d".repeat(200);
            rustix::fs::mkdirat(&below, &name, Mode::RWXU).unwrap();
            let next = rustix::fs::openat(&below, &name, OFlags::RDONLY, Mode::empty()).unwrap();
            below = fs::File::from(next);
        }
        let file = rustix::fs::openat(&below, "large", OFlags::CREATE | OFlags::WRONLY, Mode::RUSR).unwrap();
        std::io::Write::write_all(&mut fs::File::from(file), &vec![1; 1_000_000]).unwrap();
        path.push("d".repeat(200));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o000)).unwrap();
        let used = Walks::default().usage(scratch.path(), 1000).unwrap() - empty;
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0);
        assert!((1_000_000..2_000_000).contains(&used), "{used}");
        path.pop();
        let top = fs::File::open(scratch.path()).unwrap();
        koze_guest::tree::remove(std::os::fd::AsFd::as_fd(&top), "top".as_ref(), true).unwrap();
    }
}
