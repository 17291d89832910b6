//! The files of an image as its programs would see them, without mounting it.
//!
//! The layers of an image are hostile: a path that is a directory in one may be a link to the host in another. So every path is resolved
//! beneath the directory of a layer and without links. Links of the image are resolved here, in the image.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, ResolveFlags, Stat};
use rustix::io::Errno;

/// The number of links that may follow each other, as in the kernel.
const LINKS: usize = 40;

/// The files of an image. All paths are relative to its root.
#[derive(Debug)]
pub struct Tree {
    /// The uppermost layer first.
    layers: Vec<OwnedFd>,
}

/// The type of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryKind {
    /// A directory.
    Directory,
    /// A regular file.
    File,
    /// A symbolic link.
    Link,
    /// A pipe or a socket.
    Other,
}

/// An entry of an image.
#[derive(Debug)]
pub struct Entry {
    /// Its type.
    pub kind: EntryKind,
    /// Its permissions.
    pub mode: u32,
    /// The time of its last change, in seconds since the epoch.
    pub mtime: u64,
    /// The size of a file, in bytes.
    pub size: u64,
    path: PathBuf,
    layer: usize,
}

/// What a layer says about a path.
enum Said {
    Nothing,
    /// There is no such path, whatever the layers below have.
    Hidden,
    /// The entry, and whether it hides those of the layers below.
    Entry(Stat, bool),
    /// Nothing, and a directory above hides the layers below.
    NothingAndLast,
}

impl Tree {
    /// Opens the layers, the lowest of which is the first.
    pub(super) fn open(layers: &[PathBuf]) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let open = |path: &PathBuf| Ok(rustix::fs::openat(CWD, path, flags, Mode::empty())?);
        Ok(Self { layers: layers.iter().rev().map(open).collect::<io::Result<_>>()? })
    }

    /// Opens a directory of this machine as the only layer of an image. Nothing outside of it is reachable through the result.
    pub fn of_directory(directory: &Path) -> io::Result<Self> {
        Self::open(&[directory.to_owned()])
    }

    /// Returns the path without links. The part of it that does not exist is kept as it is.
    pub fn resolve(&self, path: &Path) -> io::Result<PathBuf> {
        let mut links = 0;
        let mut pending: Vec<OsString> = to_parts(path);
        let mut resolved = PathBuf::new();
        while let Some(part) = pending.pop() {
            if part == ".." {
                resolved.pop();
                continue;
            }
            let next = resolved.join(&part);
            match self.find(&next)? {
                Some(entry) if entry.kind == EntryKind::Link => {
                    links += 1;
                    if links > LINKS {
                        return Err(io::Error::other("too many symbolic links"));
                    }
                    let target = self.read_link(&entry)?;
                    if target.is_absolute() {
                        resolved = PathBuf::new();
                    }
                    pending.extend(to_parts(&target));
                }
                _ => resolved = next,
            }
        }
        Ok(resolved)
    }

    /// Finds an entry. The path is one without links: links in its directories are not followed.
    pub fn find(&self, path: &Path) -> io::Result<Option<Entry>> {
        for layer in 0..self.layers.len() {
            match self.ask(layer, path)? {
                Said::Nothing => {}
                Said::Hidden | Said::NothingAndLast => return Ok(None),
                Said::Entry(stat, _) => return Ok(Some(to_entry(&stat, path, layer))),
            }
        }
        Ok(None)
    }

    /// Returns the names in a directory, sorted.
    pub fn list(&self, directory: &Entry) -> io::Result<Vec<OsString>> {
        // The uppermost layer decides whether a name is there.
        let mut names = BTreeMap::new();
        for layer in directory.layer..self.layers.len() {
            let is_last = match self.ask(layer, &directory.path)? {
                Said::Nothing => continue,
                Said::Hidden | Said::NothingAndLast => break,
                Said::Entry(stat, is_last) => {
                    if FileType::from_raw_mode(stat.st_mode) != FileType::Directory {
                        break;
                    }
                    is_last
                }
            };
            let opened = self.open_in(layer, &directory.path, OFlags::RDONLY | OFlags::DIRECTORY)?;
            for entry in Dir::read_from(&opened)? {
                let entry = entry?;
                let name = OsStr::from_bytes(entry.file_name().to_bytes()).to_owned();
                if name == "." || name == ".." {
                    continue;
                }
                let stat = rustix::fs::statat(&opened, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW)?;
                names.entry(name).or_insert(!is_whiteout(&stat));
            }
            if is_last {
                break;
            }
        }
        Ok(names.into_iter().filter(|(_, is_there)| *is_there).map(|(name, _)| name).collect())
    }

    /// Opens a regular file for reading.
    pub fn open_file(&self, entry: &Entry) -> io::Result<File> {
        let file = File::from(self.open_in(entry.layer, &entry.path, OFlags::RDONLY | OFlags::NONBLOCK)?);
        if !file.metadata()?.is_file() {
            return Err(io::Error::other("it is not a regular file"));
        }
        Ok(file)
    }

    /// Returns the target of a symbolic link.
    pub fn read_link(&self, entry: &Entry) -> io::Result<PathBuf> {
        let link = self.open_in(entry.layer, &entry.path, OFlags::PATH)?;
        let target = rustix::fs::readlinkat(link.as_fd(), "", Vec::new())?;
        Ok(PathBuf::from(OsString::from_vec(target.into_bytes())))
    }

    fn ask(&self, layer: usize, path: &Path) -> io::Result<Said> {
        let mut hides_below = false;
        let mut above = PathBuf::new();
        let parts: Vec<_> = path.iter().collect();
        if parts.is_empty() {
            let stat = rustix::fs::fstat(&self.layers[layer])?;
            return Ok(Said::Entry(stat, false));
        }
        for (index, part) in parts.iter().enumerate() {
            above.push(part);
            let opened = match self.try_open(layer, &above, OFlags::PATH)? {
                Some(opened) => opened,
                None if hides_below => return Ok(Said::NothingAndLast),
                None => return Ok(Said::Nothing),
            };
            let stat = rustix::fs::fstat(&opened)?;
            if is_whiteout(&stat) {
                return Ok(Said::Hidden);
            }
            let is_directory = FileType::from_raw_mode(stat.st_mode) == FileType::Directory;
            if is_directory {
                hides_below |= self.is_opaque(layer, &above)?;
            }
            if index + 1 == parts.len() {
                return Ok(Said::Entry(stat, hides_below || !is_directory));
            }
            if !is_directory {
                return Ok(Said::Hidden);
            }
        }
        Ok(Said::Nothing)
    }

    fn is_opaque(&self, layer: usize, path: &Path) -> io::Result<bool> {
        let directory = match self.open_in(layer, path, OFlags::RDONLY | OFlags::DIRECTORY) {
            Ok(directory) => directory,
            // Its owner may not read it, and then nobody else could either.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Ok(false),
            Err(error) => return Err(error),
        };
        let mut value = [0; 1];
        match rustix::fs::fgetxattr(&directory, crate::OPAQUE, &mut value) {
            Ok(length) => Ok(value[..length] == *b"y"),
            Err(Errno::NODATA | Errno::NOTSUP | Errno::RANGE) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    fn open_in(&self, layer: usize, path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
        let opened = self.try_open(layer, path, flags)?;
        opened.ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// Opens a path of a layer, without links. Returns `None` if the layer does not have it.
    fn try_open(&self, layer: usize, path: &Path, flags: OFlags) -> io::Result<Option<OwnedFd>> {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        match rustix::fs::openat2(&self.layers[layer], path, flags, Mode::empty(), resolve) {
            Ok(opened) => Ok(Some(opened)),
            Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

/// Returns the parts of a path, the last one first. The root is the directory above the root.
fn to_parts(path: &Path) -> Vec<OsString> {
    let part = |component: Component| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some(OsString::from("..")),
        _ => None,
    };
    let mut parts: Vec<_> = path.components().filter_map(part).collect();
    parts.reverse();
    parts
}

fn to_entry(stat: &Stat, path: &Path, layer: usize) -> Entry {
    let kind = match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory => EntryKind::Directory,
        FileType::RegularFile => EntryKind::File,
        FileType::Symlink => EntryKind::Link,
        _ => EntryKind::Other,
    };
    Entry {
        kind,
        mode: stat.st_mode & 0o1777,
        mtime: u64::try_from(stat.st_mtime).unwrap_or(0),
        size: u64::try_from(stat.st_size).unwrap_or(0),
        path: path.to_owned(),
        layer,
    }
}

/// Returns whether an entry hides a name of the layers below. No other devices are in layers.
fn is_whiteout(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::CharacterDevice
}
