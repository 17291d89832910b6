//! The directory of a layer while it is unpacked. Every path is resolved beneath it, and nothing else is followed.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use rustix::fs::{
    AtFlags, CWD, FileType, Gid, Mode, OFlags, RenameFlags, ResolveFlags, Timespec, Timestamps, Uid,
    XattrFlags,
};
use rustix::io::Errno;

use crate::OWNER;
use crate::errors::{Result, at};
use crate::remove::remove_tree;

/// The maximum memory of the directories whose modes are set at the end, in bytes.
const DIRECTORIES: usize = 128 << 20;
/// How many links that lead to missing directories may follow each other.
const LINKS: usize = 8;

/// The directory of a layer.
pub(super) struct Root {
    directory: OwnedFd,
    path: PathBuf,
    /// The path without links.
    real: Vec<u8>,
    /// Whether files are given to [`OWNER`], as only root can.
    gives_away: bool,
    is_opaque: bool,
    entries: u64,
    /// The parent of the last entry, which is that of the next one, too, in most cases.
    parent: Option<Parent>,
    /// The modes and times of directories, by their real paths. They are set at the end: creating files needs access to a
    /// directory, and changes its time.
    directories: BTreeMap<Vec<u8>, (u32, u64)>,
    /// What the keys of `directories` take, in bytes.
    memory: usize,
}

#[derive(Clone)]
struct Parent {
    /// The path in the archive.
    path: Vec<u8>,
    /// The path without links, below the root.
    real: Rc<[u8]>,
    directory: Rc<OwnedFd>,
}

impl Root {
    /// Opens an empty directory.
    pub(super) fn open(path: &Path) -> Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let open = || -> io::Result<_> {
            let directory = rustix::fs::open(path, flags, Mode::empty())?;
            let real = read_path(&directory)?;
            Ok((directory, real))
        };
        let (directory, real) = open().map_err(at("open", path))?;
        let root = Self {
            directory,
            path: path.to_owned(),
            real,
            gives_away: rustix::process::geteuid().is_root(),
            is_opaque: false,
            entries: 0,
            parent: None,
            directories: BTreeMap::new(),
            memory: 0,
        };
        root.own(CWD, path).map_err(at("set the owner of", path))?;
        Ok(root)
    }

    /// Returns whether the layer hides all layers below.
    pub(super) fn is_opaque(&self) -> bool {
        self.is_opaque
    }

    /// Sets the modes and times of all directories. Returns the number of entries.
    pub(super) fn finish(mut self) -> Result<u64> {
        let directories = std::mem::take(&mut self.directories);
        // A directory comes before those that it contains, so that the reverse order never needs access to a finished one.
        for (path, (mode, mtime)) in directories.iter().rev() {
            let set = || -> io::Result<()> {
                let directory = match self.resolve(path, OFlags::RDONLY) {
                    // Another entry has replaced it.
                    Err(Errno::NOENT | Errno::NOTDIR) => return Ok(()),
                    opened => opened?,
                };
                rustix::fs::futimens(&directory, &times(*mtime))?;
                Ok(rustix::fs::fchmod(&directory, Mode::from_raw_mode(*mode))?)
            };
            set().map_err(|error| super::names::failed(path, error))?;
        }
        Ok(self.entries)
    }

    pub(super) fn create_directory(
        &mut self,
        parent: &[u8],
        name: &[u8],
        mode: u32,
        mtime: u64,
    ) -> io::Result<()> {
        let parent = self.parent(parent)?;
        self.make_directory(&parent, name)?;
        let real = [&parent.real, name].join(&b'/');
        self.memory += real.len() + 64;
        if self.memory > DIRECTORIES {
            return Err(io::Error::other("the layer has too many directories"));
        }
        self.directories.insert(real, (mode, mtime));
        Ok(())
    }

    pub(super) fn create_file(
        &mut self,
        parent: &[u8],
        name: &[u8],
        mode: u32,
        mtime: u64,
        content: &mut impl Read,
    ) -> io::Result<()> {
        let parent = self.parent(parent)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = self.create(&parent, name, || {
            rustix::fs::openat(&parent.directory, name, flags, Mode::RUSR | Mode::WUSR)
        })?;
        let mut file = File::from(file);
        io::copy(content, &mut file)?;
        if self.gives_away {
            let (user, group) = owner();
            rustix::fs::fchown(&file, Some(user), Some(group))?;
        }
        rustix::fs::fchmod(&file, Mode::from_raw_mode(mode))?;
        Ok(rustix::fs::futimens(&file, &times(mtime))?)
    }

    pub(super) fn create_link(
        &mut self,
        parent: &[u8],
        name: &[u8],
        target: &[u8],
        mtime: u64,
    ) -> io::Result<()> {
        let parent = self.parent(parent)?;
        self.create(&parent, name, || rustix::fs::symlinkat(target, &parent.directory, name))?;
        self.own(parent.directory.as_fd(), name)?;
        let flags = AtFlags::SYMLINK_NOFOLLOW;
        Ok(rustix::fs::utimensat(&parent.directory, name, &times(mtime), flags)?)
    }

    pub(super) fn create_hard_link(
        &mut self,
        parent: &[u8],
        name: &[u8],
        from: &[u8],
        target: &[u8],
    ) -> io::Result<()> {
        let missing = || io::Error::other("it is a hard link to a file that its layer does not have");
        let from = match self.resolve(from, OFlags::PATH) {
            Err(Errno::NOENT | Errno::NOTDIR) => return Err(missing()),
            opened => opened?,
        };
        let stat = match rustix::fs::statat(&from, target, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => return Err(missing()),
            stat => stat?,
        };
        let kind = FileType::from_raw_mode(stat.st_mode);
        // A directory cannot have a second name, and one for a whiteout would hide another file.
        if !matches!(kind, FileType::RegularFile | FileType::Symlink | FileType::Fifo) {
            return Err(missing());
        }
        let parent = self.parent(parent)?;
        let there = rustix::fs::statat(&parent.directory, name, AtFlags::SYMLINK_NOFOLLOW);
        if there.is_ok_and(|there| (there.st_dev, there.st_ino) == (stat.st_dev, stat.st_ino)) {
            return Ok(());
        }
        let link = || rustix::fs::linkat(&from, target, &parent.directory, name, AtFlags::empty());
        self.create(&parent, name, link)?;
        Ok(())
    }

    pub(super) fn create_fifo(
        &mut self,
        parent: &[u8],
        name: &[u8],
        mode: u32,
        mtime: u64,
    ) -> io::Result<()> {
        let parent = self.parent(parent)?;
        let directory = &parent.directory;
        self.create(&parent, name, || {
            rustix::fs::mknodat(directory, name, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)
        })?;
        self.own(directory.as_fd(), name)?;
        rustix::fs::chmodat(directory, name, Mode::from_raw_mode(mode), AtFlags::empty())?;
        Ok(rustix::fs::utimensat(directory, name, &times(mtime), AtFlags::SYMLINK_NOFOLLOW)?)
    }

    /// Hides a name of the layers below. It does not hide what this layer has under that name.
    pub(super) fn hide(&mut self, parent: &[u8], name: &[u8]) -> io::Result<()> {
        let parent = self.parent(parent)?;
        self.entries += 1;
        match rustix::fs::mknodat(&parent.directory, name, FileType::CharacterDevice, Mode::empty(), 0) {
            Ok(()) => self.own(parent.directory.as_fd(), name),
            Err(Errno::EXIST) if kind(&parent, name)? == FileType::Directory => {
                set_opaque(&self.resolve_at(&parent, name)?)
            }
            Err(Errno::EXIST) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Makes a directory hide everything that the layers below have in it.
    pub(super) fn make_opaque(&mut self, path: &[u8]) -> io::Result<()> {
        let parent = self.parent(path)?;
        self.entries += 1;
        // An overlay ignores the attribute of a layer's own directory.
        if parent.real.is_empty() {
            self.is_opaque = true;
            return Ok(());
        }
        set_opaque(&self.resolve(&parent.real, OFlags::RDONLY)?)
    }

    /// Creates an entry, in place of one that is there.
    fn create<T>(
        &mut self,
        parent: &Parent,
        name: &[u8],
        create: impl Fn() -> rustix::io::Result<T>,
    ) -> io::Result<T> {
        self.entries += 1;
        match create() {
            Err(Errno::EXIST) => {
                self.remove(parent, name)?;
                Ok(create()?)
            }
            created => Ok(created?),
        }
    }

    /// Creates a directory, unless there is one.
    fn make_directory(&mut self, parent: &Parent, name: &[u8]) -> io::Result<()> {
        self.entries += 1;
        let create = || rustix::fs::mkdirat(&parent.directory, name, Mode::RWXU);
        let mut was_hidden = false;
        if let Err(error) = create() {
            if error != Errno::EXIST {
                return Err(error.into());
            }
            match kind(parent, name)? {
                FileType::Directory => return Ok(()),
                // Only whiteouts are devices. What was below stays hidden.
                kind => was_hidden = kind == FileType::CharacterDevice,
            }
            self.remove(parent, name)?;
            create()?;
        }
        self.own(parent.directory.as_fd(), name)?;
        if was_hidden {
            set_opaque(&self.resolve_at(parent, name)?)?;
        }
        Ok(())
    }

    /// Removes an entry of the layer, with everything below it.
    fn remove(&mut self, parent: &Parent, name: &[u8]) -> io::Result<()> {
        // The last parent may be below it.
        self.parent = None;
        if kind(parent, name)? != FileType::Directory {
            return Ok(rustix::fs::unlinkat(&parent.directory, name, AtFlags::empty())?);
        }
        let real = [&parent.real, name].join(&b'/');
        self.directories.remove(&real);
        let below = [&real[..], b"/"].concat();
        let removed: Vec<_> = self.directories.range(below.clone()..).map(|(path, _)| path.clone()).collect();
        for path in removed.iter().take_while(|path| path.starts_with(&below)) {
            self.directories.remove(path);
        }
        let trash = self.path.with_extension("trash");
        rustix::fs::renameat_with(&parent.directory, name, CWD, &trash, RenameFlags::NOREPLACE)?;
        remove_tree(&trash)
    }

    /// Gives an entry to the owner of the store's files.
    fn own<P: rustix::path::Arg>(&self, directory: BorrowedFd, name: P) -> io::Result<()> {
        if self.gives_away {
            let (user, group) = owner();
            rustix::fs::chownat(directory, name, Some(user), Some(group), AtFlags::SYMLINK_NOFOLLOW)?;
        }
        Ok(())
    }

    /// Opens the directory of an entry, and creates what is missing. Parents may be links, which the image's own root
    /// resolves: `bin` is one in most images.
    fn parent(&mut self, path: &[u8]) -> io::Result<Parent> {
        if let Some(parent) = self.parent.as_ref().filter(|parent| parent.path == path) {
            return Ok(parent.clone());
        }
        let directory = match self.resolve(path, OFlags::PATH) {
            Err(Errno::NOENT | Errno::NOTDIR) => self.create_parents(path, LINKS)?,
            opened => opened?,
        };
        let parent = Parent {
            path: path.to_owned(),
            real: self.real_path(&directory)?,
            directory: Rc::new(directory),
        };
        self.parent = Some(parent.clone());
        Ok(parent)
    }

    fn create_parents(&mut self, path: &[u8], links: usize) -> io::Result<OwnedFd> {
        let mut above = self.resolve(b"", OFlags::PATH)?;
        let mut end = 0;
        for component in path.split(|byte| *byte == b'/') {
            end += component.len();
            let prefix = &path[..end];
            end += 1;
            above = match self.resolve(prefix, OFlags::PATH) {
                Err(Errno::NOENT | Errno::NOTDIR) => self.create_parent(above, component, links)?,
                opened => opened?,
            };
        }
        Ok(above)
    }

    /// Creates a directory that an archive has no entry for, or that it has only a link to.
    fn create_parent(&mut self, above: OwnedFd, name: &[u8], links: usize) -> io::Result<OwnedFd> {
        let parent = Parent { path: Vec::new(), real: self.real_path(&above)?, directory: Rc::new(above) };
        let there = match kind(&parent, name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => FileType::Directory,
            there => there?,
        };
        match there {
            FileType::Directory | FileType::CharacterDevice => {
                self.make_directory(&parent, name)?;
                let mode = Mode::RWXU | Mode::RGRP | Mode::XGRP | Mode::ROTH | Mode::XOTH;
                rustix::fs::chmodat(&parent.directory, name, mode, AtFlags::empty())?;
                Ok(self.resolve_at(&parent, name)?)
            }
            FileType::Symlink if links > 0 => {
                let target = rustix::fs::readlinkat(&parent.directory, name, Vec::new())?;
                let target = match target.as_bytes() {
                    absolute @ [b'/', ..] => absolute.to_owned(),
                    relative => [&parent.real, relative].join(&b'/'),
                };
                self.create_parents(&target, links - 1)
            }
            _ => Err(io::Error::other("its directory is not a directory")),
        }
    }

    /// Opens a directory of a path below the root; links of the image are resolved in it.
    fn resolve(&self, path: &[u8], flags: OFlags) -> rustix::io::Result<OwnedFd> {
        let path = if path.is_empty() { b"." } else { path };
        let flags = flags | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
        rustix::fs::openat2(&self.directory, path, flags, Mode::empty(), resolve)
    }

    /// Opens a directory that is no link.
    fn resolve_at(&self, parent: &Parent, name: &[u8]) -> rustix::io::Result<OwnedFd> {
        self.resolve(&[&parent.real, name].join(&b'/'), OFlags::RDONLY)
    }

    /// Returns the path of a directory below the root, without links.
    fn real_path(&self, directory: &OwnedFd) -> io::Result<Rc<[u8]>> {
        let path = read_path(directory)?;
        let below = path.strip_prefix(&self.real[..]);
        let below = below.ok_or_else(|| io::Error::other("its directory is outside of the layer"))?;
        Ok(below.strip_prefix(b"/").unwrap_or(below).into())
    }
}

fn kind(parent: &Parent, name: &[u8]) -> io::Result<FileType> {
    let stat = rustix::fs::statat(&parent.directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
    Ok(FileType::from_raw_mode(stat.st_mode))
}

fn owner() -> (Uid, Gid) {
    (Uid::from_raw(OWNER), Gid::from_raw(OWNER))
}

/// Returns the path of an open directory.
fn read_path(directory: &OwnedFd) -> io::Result<Vec<u8>> {
    let link = format!("/proc/self/fd/{}", directory.as_raw_fd());
    Ok(rustix::fs::readlink(link, Vec::new())?.into_bytes())
}

fn set_opaque(directory: &OwnedFd) -> io::Result<()> {
    Ok(rustix::fs::fsetxattr(directory, crate::OPAQUE, b"y", XattrFlags::empty())?)
}

fn times(mtime: u64) -> Timestamps {
    let time = Timespec { tv_sec: mtime.try_into().unwrap_or(0), tv_nsec: 0 };
    Timestamps { last_access: time, last_modification: time }
}
