//! Layers: immutable copies of directories of sandboxes. A snapshot is kept as a layer. A sandbox can start on top of a layer without
//! copying its files: overlayfs shows them until a program changes them.
//!
//! A file of a layer is its own, or a hard link to that of the previous layer of the same sandbox. The database of the stores lists the
//! layers of snapshots; `users` in a layer lists the sandboxes on top of it. A layer in neither list is removed.
//!
//! ```text
//! layers/<name>/lock      held while the layer is created
//!              /about     the directory that it was taken of
//!              /index     its files, with the marks by which later changes are detected
//!              /files/    the files, with their paths below the sandbox's own directory
//!              /users/    an empty file for each sandbox on top of it
//! ```
//!
//! | module | job |
//! |---|---|
//! | `take` | creates a layer from what a sandbox hands over |
//! | `known` | finds the files that a sandbox has not changed since its last layer |
//! | `files` | creates the files of a layer |
//! | `copies` | copies their content |
//! | `base` | the layer that a sandbox is on top of |

mod base;
mod copies;
mod files;
mod known;
mod take;

use std::fs::{self, DirBuilder, File};
use std::io::{self, Write as _};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use koze_guest::archive::Mark;
use koze_guest::message::Place;
use rustix::fs::{FlockOperation, flock};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

pub(super) use self::base::Base;
pub(super) use self::take::{fill_layer, prepare_layer};
use crate::errors::state_failed;
use crate::host::layout::Own;
use crate::host::removal;
use koze_core::error::{Code, Error, Result};

/// The layers of a state directory.
#[derive(Debug, Clone)]
pub(super) struct Layers {
    state: PathBuf,
    directory: PathBuf,
}

/// A layer.
#[derive(Debug, Clone)]
pub(super) struct Layer {
    name: String,
    directory: PathBuf,
}

/// The record of a layer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct About {
    /// The sandbox's own directory that it was taken of.
    own: String,
    /// The path below it.
    below: String,
    /// The boot of this machine that it was created in.
    boot: String,
}

impl About {
    /// Returns whether the layer was taken of this directory.
    fn is_of(&self, own: &Own) -> bool {
        self.own == own.path && self.below == own.below
    }
}

/// A file of a layer: its path below the directory, its size in bytes, and the mark of the original, unless that can change without a new
/// mark.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Indexed {
    path: String,
    size: u64,
    mark: Option<Mark>,
}

impl Layers {
    pub(super) fn new(state: &Path) -> Self {
        Layers { state: state.to_owned(), directory: state.join("layers") }
    }

    /// Returns a layer, if it exists.
    fn find(&self, name: &str) -> Option<Layer> {
        let is_name = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric());
        let layer = Layer { name: name.to_owned(), directory: self.directory.join(name) };
        (is_name && layer.directory.join("about").exists()).then_some(layer)
    }

    /// Returns the layer that a store lists.
    ///
    /// # Errors
    /// [`Code::Internal`] if its files were deleted.
    pub(super) fn get(&self, name: &str) -> Result<Layer> {
        self.find(name).ok_or_else(|| {
            let message =
                "the files of this snapshot were deleted from the state directory: remove the snapshot";
            Error::new(Code::Internal, message)
        })
    }

    /// Creates an empty layer. No other process removes it while its lock is held.
    fn create(&self) -> io::Result<(Layer, File)> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.directory)?;
        let name = uuid::Uuid::new_v4().simple().to_string();
        let layer = Layer { directory: self.directory.join(&name), name };
        // Excludes a sweep by another process, because the new directory is not locked yet.
        let _one = self.lock()?;
        DirBuilder::new().mode(0o700).create(&layer.directory)?;
        let lock = File::create(layer.directory.join("lock"))?;
        flock(&lock, FlockOperation::LockExclusive)?;
        fs::create_dir(layer.directory.join("users"))?;
        Ok((layer, lock))
    }

    /// Removes a layer that a store no longer lists, unless a sandbox is on top of it.
    pub(super) fn release(&self, name: &str) -> io::Result<()> {
        let Some(layer) = self.find(name) else { return Ok(()) };
        let _one = self.lock()?;
        if self.has_users(&layer) { Ok(()) } else { self.remove(&layer) }
    }

    /// Removes the layers that killed processes have left. `is_listed` returns whether a store lists a layer.
    pub(super) fn sweep(&self, is_listed: impl Fn(&str) -> Result<bool>) -> Result<()> {
        let entries = match fs::read_dir(&self.directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            entries => entries.map_err(layer_error)?,
        };
        let _one = self.lock().map_err(layer_error)?;
        for entry in entries.flatten() {
            let Ok(name) = entry.file_name().into_string() else { continue };
            let layer = Layer { directory: entry.path(), name };
            if !layer.directory.is_dir() || layer.is_locked() {
                continue;
            }
            if !is_listed(&layer.name)? && !self.has_users(&layer) {
                self.remove(&layer).map_err(layer_error)?;
            }
        }
        Ok(())
    }

    /// Returns whether a sandbox is on top of a layer. Removes the entries of sandboxes that no longer exist.
    fn has_users(&self, layer: &Layer) -> bool {
        let users = fs::read_dir(layer.directory.join("users"));
        let mut any = false;
        for user in users.into_iter().flatten().flatten() {
            if self.state.join(user.file_name()).exists() {
                any = true;
            } else {
                let _ = fs::remove_file(user.path());
            }
        }
        any
    }

    fn remove(&self, layer: &Layer) -> io::Result<()> {
        // Atomic: a directory that was renamed is deleted later, even if this process is killed.
        let gone = removal::gone_name(&self.state.join(&layer.name));
        fs::rename(&layer.directory, &gone)?;
        removal::remove_directory(&gone)
    }

    /// Takes the lock that is held while layers are removed or get a user.
    fn lock(&self) -> io::Result<File> {
        let lock = File::create(self.directory.join("lock"))?;
        flock(&lock, FlockOperation::LockExclusive)?;
        Ok(lock)
    }
}

impl Layer {
    /// Returns its name, by which the database of the stores lists it.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    fn files(&self) -> PathBuf {
        self.directory.join("files")
    }

    fn about(&self) -> io::Result<About> {
        Ok(serde_json::from_slice(&fs::read(self.directory.join("about"))?)?)
    }

    /// Returns the directory with its files, to archive them.
    pub(super) fn place(&self) -> Result<Place> {
        let about = self.checked().map_err(layer_error)??;
        let path = self.files().join(about.below);
        let path = path.into_os_string().into_string().map_err(|_| {
            Error::new(Code::Unsupported, "the path of the state directory is not UTF-8: choose another one")
        })?;
        Ok(Place { root: path.clone(), path })
    }

    /// Returns the record, if the layer is complete. koze does not wait until a layer is on disk, so a power failure can truncate its
    /// files: after a reboot, their sizes are compared once.
    fn checked(&self) -> io::Result<Result<About>> {
        let mut about = self.about()?;
        let boot = boot_id()?;
        if about.boot == boot {
            return Ok(Ok(about));
        }
        let files = self.files().join(&about.below);
        for file in self.index()? {
            let size = fs::symlink_metadata(files.join(&file.path)).map(|found| found.len());
            if !size.is_ok_and(|size| size == file.size) {
                let message = format!(
                    "the snapshot is damaged: this machine lost power before its file `{}` was on disk",
                    file.path
                );
                return Ok(Err(Error::new(Code::InvalidInput, message)));
            }
        }
        about.boot = boot;
        self.write("about", &about)?;
        Ok(Ok(about))
    }

    /// Reads its index.
    fn index(&self) -> io::Result<Vec<Indexed>> {
        Ok(serde_json::from_slice(&fs::read(self.directory.join("index"))?)?)
    }

    fn write(&self, name: &str, value: &impl Serialize) -> io::Result<()> {
        write_atomically(&self.directory.join(name), &serde_json::to_vec(value)?)
    }

    /// Returns whether a process is creating it.
    fn is_locked(&self) -> bool {
        File::open(self.directory.join("lock"))
            .is_ok_and(|lock| flock(&lock, FlockOperation::NonBlockingLockShared).is_err())
    }
}

/// Reads a record, which is `None` if the file does not exist.
pub(crate) fn read_record<T: DeserializeOwned>(path: &Path) -> Result<Option<T>> {
    match fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        read => Ok(serde_json::from_slice(&read.map_err(state_failed)?)
            .map_err(|error| state_failed(error.into()))?),
    }
}

/// Writes a small file atomically.
pub(crate) fn write_atomically(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = tempfile::NamedTempFile::new_in(path.parent().unwrap_or(Path::new("/")))?;
    file.write_all(bytes)?;
    file.persist(path)?;
    Ok(())
}

/// Returns the ID of this boot of the machine.
fn boot_id() -> io::Result<String> {
    Ok(fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned())
}

#[allow(clippy::needless_pass_by_value, reason = "it is used with `map_err`")]
pub(super) fn layer_error(error: io::Error) -> Error {
    Error::new(Code::Unavailable, format!("the files of a snapshot cannot be used: {}", error.kind()))
        .with_source(error)
}
