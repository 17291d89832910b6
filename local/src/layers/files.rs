//! Creates the files of a layer. Messages of the sandbox are not trusted: nothing is created outside the layer, and no link is followed.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use koze_protocol::tar::MODE;
use rustix::fs::{AtFlags, CWD, Gid, Mode, OFlags, ResolveFlags, Uid};
use rustix::io::Errno;

use super::copies::FileCopy;

/// The files of a layer that is being created.
pub(super) struct Files {
    top: OwnedFd,
    /// The top of the layer whose unchanged files are linked.
    previous: Option<OwnedFd>,
    /// The owner of the files, unless it is this user.
    owner: Option<(Uid, Gid)>,
    /// The directory of the last entry, and the same directory of the previous layer.
    last: Option<(String, OwnedFd, Option<OwnedFd>)>,
    /// The permission bits of directories. They are set last, because a directory may be read-only.
    modes: Vec<(String, u32)>,
}

impl Files {
    pub(super) fn new(top: File, previous: Option<&Path>, owner: Option<u32>) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let open = |path: &Path| rustix::fs::openat(CWD, path, flags, Mode::empty());
        let owner = owner.map(|owner| (Uid::from_raw(owner), Gid::from_raw(owner)));
        let previous = previous.map(open).transpose()?;
        Ok(Files { top: top.into(), previous, owner, last: None, modes: Vec::new() })
    }

    pub(super) fn directory(&mut self, path: String, mode: u32) -> io::Result<()> {
        if !path.is_empty() {
            let (above, name) = self.enter(&path)?;
            rustix::fs::mkdirat(above, name, Mode::RWXU)?;
            self.own(name)?;
        }
        self.modes.push((path, mode));
        Ok(())
    }

    pub(super) fn link(&mut self, path: &str, target: &str) -> io::Result<()> {
        let (above, name) = self.enter(path)?;
        rustix::fs::symlinkat(target, above, name)?;
        self.own(name)
    }

    /// Creates a file. The returned copy sets its content, owner and permission bits.
    pub(super) fn file(&mut self, path: &str, mode: u32, from: File, size: u64) -> io::Result<FileCopy> {
        let (above, name) = self.enter(path)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let to = File::from(rustix::fs::openat(above, name, flags, Mode::RUSR | Mode::WUSR)?);
        Ok(FileCopy { from, to, size, owner: self.owner, mode: mode_bits(mode) })
    }

    /// Links a file of the previous layer. If that is not possible, creates a new file and returns the copy to make.
    pub(super) fn same(&mut self, path: &str, mode: u32) -> io::Result<Option<FileCopy>> {
        let (_, name) = self.enter(path)?;
        let Some((_, to, Some(from))) = &self.last else { return Err(io::ErrorKind::NotFound.into()) };
        match rustix::fs::linkat(from, name, to, name, AtFlags::empty()) {
            Ok(()) => Ok(None),
            // The file has the maximum number of links, or the system forbids links to other users' files.
            Err(Errno::MLINK | Errno::PERM | Errno::XDEV) => {
                let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let from = File::from(rustix::fs::openat(from, name, flags, Mode::empty())?);
                let size = from.metadata()?.len();
                self.file(path, mode, from, size).map(Some)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Sets the permission bits of directories.
    pub(super) fn finish(mut self) -> io::Result<()> {
        for (path, mode) in std::mem::take(&mut self.modes).into_iter().rev() {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let directory = open_below(self.top.as_fd(), if path.is_empty() { "." } else { &path }, flags)?;
            rustix::fs::fchmod(directory, mode_bits(mode))?;
        }
        Ok(())
    }

    /// Opens the directory of an entry. Returns it with the entry's name.
    fn enter<'a>(&mut self, path: &'a str) -> io::Result<(BorrowedFd<'_>, &'a str)> {
        let (above, name) = path.rsplit_once('/').unwrap_or((".", path));
        if matches!(name, "" | "." | "..") {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        if self.last.as_ref().is_none_or(|(last, ..)| last != above) {
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let to = open_below(self.top.as_fd(), above, flags)?;
            // The directory may be new.
            let from = self.previous.as_ref().and_then(|top| open_below(top.as_fd(), above, flags).ok());
            self.last = Some((above.to_owned(), to, from));
        }
        let (_, directory, _) = self.last.as_ref().ok_or(io::ErrorKind::NotFound)?;
        Ok((directory.as_fd(), name))
    }

    /// Sets the owner of an entry of the last directory.
    fn own(&self, name: &str) -> io::Result<()> {
        let (Some((user, group)), Some((_, directory, _))) = (self.owner, &self.last) else { return Ok(()) };
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        Ok(rustix::fs::chownat(directory, name, Some(user), Some(group), flags)?)
    }
}

/// Opens a directory below another one.
fn open_below(top: BorrowedFd<'_>, path: &str, flags: OFlags) -> io::Result<OwnedFd> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    Ok(rustix::fs::openat2(top, path, flags, Mode::empty(), resolve)?)
}

fn mode_bits(mode: u32) -> Mode {
    Mode::from_raw_mode(mode & MODE)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn nothing_is_created_elsewhere() {
        let (top, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let mut layer = Files::new(File::open(top.path()).unwrap(), Some(other.path()), None).unwrap();
        layer.link("link", other.path().to_str().unwrap()).unwrap();
        for path in ["link/f", "../f", "d/../../f", "/tmp/f", "", ".", "..", "a/.."] {
            let content = File::open("/dev/null").unwrap();
            assert!(layer.file(path, 0o644, content, 0).is_err(), "{path}");
            assert!(layer.link(path, "x").is_err(), "{path}");
            assert!(layer.same(path, 0o644).is_err(), "{path}");
            assert!(path.is_empty() || layer.directory(path.into(), 0o755).is_err(), "{path}");
        }
        assert_eq!(fs::read_dir(other.path()).unwrap().count(), 0);
    }
}
