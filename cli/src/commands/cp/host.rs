//! Files of this machine that a copy reads or creates.

use std::fs::{self, File, Metadata, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use koze_core::{Code, Error, Result};
use tempfile::{NamedTempFile, TempDir};

use crate::commands::partial::{Durability, Partial};
use crate::commands::sides::STAGING;

/// The permission bits that a copy keeps: all but the set-user-ID, set-group-ID and sticky bits.
pub(super) const KEPT: u32 = 0o777;

/// Returns whether a path is a directory.
pub(super) fn is_directory(path: &Path) -> Result<bool> {
    fs::metadata(path).map(|about| about.is_dir()).map_err(|error| failed(path, &error))
}

/// Opens a file to read from, and describes it.
pub(super) fn open(path: &Path) -> Result<(File, Metadata)> {
    // A pipe would block when it is opened.
    if !fs::metadata(path).map_err(|error| failed(path, &error))?.is_file() {
        let message =
            format!("`{}` is not a regular file or directory; `-` reads standard input", path.display());
        return Err(Error::new(Code::Unsupported, message));
    }
    let file = File::open(path).map_err(|error| failed(path, &error))?;
    let about = file.metadata().map_err(|error| failed(path, &error))?;
    Ok((file, about))
}

/// Returns whether a file has changed since it was described.
pub(super) fn is_changed(file: &File, before: &Metadata) -> bool {
    let when = |about: &Metadata| (about.size(), about.mtime(), about.mtime_nsec());
    file.metadata().is_ok_and(|now| when(&now) != when(before))
}

/// Returns the error for such a file.
pub(super) fn changed(path: &str) -> Error {
    Error::new(Code::Unavailable, format!("`{path}` was changed while it was copied: try again"))
}

/// A file that appears at its path when it is complete.
pub(super) struct NewFile {
    content: NewContent,
    path: PathBuf,
    /// The permission bits of the file that it replaces.
    mode: Option<u32>,
}

/// What a new file has so far.
enum NewContent {
    /// It is removed if the copy is interrupted.
    Staged(NamedTempFile),
    /// The next copy goes on with it.
    Partial(Partial),
}

impl NewFile {
    /// Creates a file for a path, or goes on with what an interrupted copy of this version has. `mode` applies if the file does
    /// not exist yet, restricted by the umask.
    pub(super) fn create(path: &Path, mode: u32, version: Option<&str>) -> Result<Self> {
        let path = resolve_link(path)?;
        let replaced = match fs::metadata(&path) {
            Ok(about) if about.is_file() => Some(about.permissions().mode()),
            Ok(_) => {
                let message =
                    format!("`{}` is not a regular file; `-` writes to standard output", path.display());
                return Err(Error::new(Code::Unsupported, message));
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(failed(&path, &error)),
        };
        if let Some(version) = version {
            let partial = Partial::open(&path, version, mode & KEPT, Durability::WithinBoot);
            if let Some(partial) = partial.map_err(|error| failed(&path, &error))? {
                return Ok(NewFile { content: NewContent::Partial(partial), path, mode: replaced });
            }
        }
        let mut builder = tempfile::Builder::new();
        builder.prefix(STAGING);
        if replaced.is_none() {
            builder.permissions(Permissions::from_mode(mode & KEPT));
        }
        let file = builder.tempfile_in(parent_or_root(&path)).map_err(|error| failed(&path, &error))?;
        Ok(NewFile { content: NewContent::Staged(file), path, mode: replaced })
    }

    /// Returns the file, to write to.
    pub(super) fn file(&self) -> &File {
        match &self.content {
            NewContent::Staged(file) => file.as_file(),
            NewContent::Partial(partial) => partial.file(),
        }
    }

    /// Returns how many bytes it has already.
    pub(super) fn position(&self) -> u64 {
        match &self.content {
            NewContent::Staged(_) => 0,
            NewContent::Partial(partial) => partial.position(),
        }
    }

    /// Puts the file at its path.
    pub(super) fn finish(self) -> Result<()> {
        let NewFile { content, path, mode } = self;
        let finished = match content {
            NewContent::Partial(partial) => partial.finish(&path, mode),
            NewContent::Staged(file) => {
                let set =
                    mode.map_or(Ok(()), |mode| file.as_file().set_permissions(Permissions::from_mode(mode)));
                set.and_then(|()| file.persist(&path).map(drop).map_err(|error| error.error))
            }
        };
        finished.map_err(|error| failed(&path, &error))
    }

    /// Removes what it has.
    pub(super) fn discard(self) {
        if let NewContent::Partial(partial) = self.content {
            partial.discard();
        }
    }
}

/// A tree that appears at its path when it is complete.
pub(super) struct NewTree {
    /// Only this user can access it.
    dir: TempDir,
    path: PathBuf,
}

impl NewTree {
    /// Prepares a tree for a path that does not exist.
    pub(super) fn create(path: &Path) -> Result<Self> {
        let path = std::path::absolute(path).map_err(|error| failed(path, &error))?;
        if fs::symlink_metadata(&path).is_ok() {
            let message = format!(
                "`{}` already exists, and a directory is never merged: use another path",
                path.display()
            );
            return Err(Error::new(Code::AlreadyExists, message));
        }
        let dir = tempfile::Builder::new().prefix(STAGING).tempdir_in(parent_or_root(&path));
        let dir = dir.map_err(|error| failed(&path, &error))?;
        Ok(NewTree { dir, path })
    }

    /// Returns the path at which to create it.
    pub(super) fn staging(&self) -> PathBuf {
        self.dir.path().join("tree")
    }

    /// Puts the tree at its path.
    pub(super) fn finish(self) -> Result<()> {
        let staging = self.staging();
        without_special_bits(&staging).map_err(|error| failed(&self.path, &error))?;
        // Fails if something was created there meanwhile.
        let flags = rustix::fs::RenameFlags::NOREPLACE;
        rustix::fs::renameat_with(rustix::fs::CWD, &staging, rustix::fs::CWD, &self.path, flags)
            .map_err(|error| failed(&self.path, &error.into()))
    }
}

/// Removes the set-user-ID, set-group-ID and sticky bits of a tree's files and directories.
fn without_special_bits(path: &Path) -> io::Result<()> {
    let about = fs::symlink_metadata(path)?;
    if about.is_symlink() {
        return Ok(());
    }
    let mode = about.permissions().mode();
    if mode & 0o7777 & !KEPT != 0 {
        fs::set_permissions(path, Permissions::from_mode(mode & KEPT))?;
    }
    if about.is_dir() {
        for entry in fs::read_dir(path)? {
            without_special_bits(&entry?.path())?;
        }
    }
    Ok(())
}

/// Follows symbolic links at the end of a path.
fn resolve_link(path: &Path) -> Result<PathBuf> {
    match fs::symlink_metadata(path) {
        Ok(about) if about.is_symlink() => fs::canonicalize(path).map_err(|error| failed(path, &error)),
        _ => std::path::absolute(path).map_err(|error| failed(path, &error)),
    }
}

fn parent_or_root(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new("/"))
}

/// Converts an error of this machine's file system.
pub(super) fn failed(path: impl AsRef<Path>, error: &io::Error) -> Error {
    let code = match error.kind() {
        io::ErrorKind::NotFound => Code::NotFound,
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => Code::PermissionDenied,
        io::ErrorKind::AlreadyExists => Code::AlreadyExists,
        io::ErrorKind::IsADirectory => Code::IsDirectory,
        io::ErrorKind::NotADirectory => Code::NotADirectory,
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Code::TooLarge,
        _ => Code::Internal,
    };
    Error::new(code, format!("`{}`: {error}", path.as_ref().display()))
}
