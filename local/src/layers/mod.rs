//! Layers: directories of sandboxes, kept as they were. Snapshots are kept as layers, and sandboxes begin with the files of one, without a
//! copy: overlayfs shows its files until a program changes them.
//!
//! A layer never changes. Its files are its own, or hard links to those of the layer that was taken of the same sandbox before. The
//! database of the stores lists the layers of snapshots, `users` in a layer the sandboxes over it. A layer that neither has is removed.
//!
//! ```text
//! layers/<name>/lock      held while the layer is created
//!              /about     what it is of
//!              /index     its files, with what tells later whether they have changed
//!              /files/    the files, from the sandbox's own directory on
//!              /users/    a name for each sandbox over it
//! ```
//!
//! | module | job |
//! |---|---|
//! | `take` | creates a layer from a directory of a running sandbox |
//! | `known` | which files a sandbox has not changed since its last layer |
//! | `files` | creates the files of a layer |
//! | `copies` | copies their content |
//! | `base` | the layer that a sandbox begins with |

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
use serde::{Deserialize, Serialize};

pub(super) use self::base::Base;
pub(super) use self::take::take;
use super::layout::Own;
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

/// What is recorded of a layer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct About {
    /// The sandbox's own directory that it is of.
    own: String,
    /// The path below it.
    below: String,
    /// The boot of this machine that it was created in.
    boot: String,
}

impl About {
    /// Returns whether it is of this directory.
    fn is_of(&self, own: &Own) -> bool {
        self.own == own.path && self.below == own.below
    }
}

/// A file of a layer: its path below the directory, its size in bytes, and the mark of the one that it was taken of, unless that may change
/// without a trace.
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
            let message = "the files of this snapshot are lost: they were deleted from the state directory";
            Error::new(Code::Internal, message)
        })
    }

    /// Begins a layer. Nobody else removes it while the lock is held.
    fn create(&self) -> io::Result<(Layer, File)> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.directory)?;
        let name = uuid::Uuid::new_v4().simple().to_string();
        let layer = Layer { directory: self.directory.join(&name), name };
        // Not while another program sweeps: the directory has no lock yet.
        let _one = self.lock()?;
        DirBuilder::new().mode(0o700).create(&layer.directory)?;
        let lock = File::create(layer.directory.join("lock"))?;
        flock(&lock, FlockOperation::LockExclusive)?;
        fs::create_dir(layer.directory.join("users"))?;
        Ok((layer, lock))
    }

    /// Removes a layer that a store no longer lists, unless a sandbox is over it.
    pub(super) fn release(&self, name: &str) -> io::Result<()> {
        let Some(layer) = self.find(name) else { return Ok(()) };
        let _one = self.lock()?;
        if self.has_users(&layer) { Ok(()) } else { self.remove(&layer) }
    }

    /// Removes what killed programs have left. `is_listed` tells whether a store lists a layer.
    pub(super) fn sweep(&self, is_listed: impl Fn(&str) -> Result<bool>) -> Result<()> {
        let entries = match fs::read_dir(&self.directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            entries => entries.map_err(failed)?,
        };
        let _one = self.lock().map_err(failed)?;
        for entry in entries.flatten() {
            let Ok(name) = entry.file_name().into_string() else { continue };
            let layer = Layer { directory: entry.path(), name };
            if !layer.directory.is_dir() || layer.is_locked() {
                continue;
            }
            if !is_listed(&layer.name)? && !self.has_users(&layer) {
                self.remove(&layer).map_err(failed)?;
            }
        }
        Ok(())
    }

    /// Returns whether a sandbox is over a layer. Forgets those that no longer exist.
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
        // Whole or not at all: what is renamed is cleared later at the latest.
        let gone = super::gone_name(&self.state.join(&layer.name));
        fs::rename(&layer.directory, &gone)?;
        super::clear(&gone)
    }

    /// A lock that is held while layers are removed, or get a user.
    fn lock(&self) -> io::Result<File> {
        let lock = File::create(self.directory.join("lock"))?;
        flock(&lock, FlockOperation::LockExclusive)?;
        Ok(lock)
    }
}

impl Layer {
    /// Returns its name, which the database of the stores has.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    fn files(&self) -> PathBuf {
        self.directory.join("files")
    }

    fn about(&self) -> io::Result<About> {
        Ok(serde_json::from_slice(&fs::read(self.directory.join("about"))?)?)
    }

    /// Returns the archived directory, for an archive of it.
    pub(super) fn place(&self) -> Result<Place> {
        let about = self.checked().map_err(failed)??;
        let path = self.files().join(about.below);
        let path = path.into_os_string().into_string().map_err(|_| {
            Error::new(Code::Unsupported, "the path of the state directory is not UTF-8: choose another one")
        })?;
        Ok(Place { root: path.clone(), path })
    }

    /// Returns what is recorded, if the layer is whole. It was written without waiting for the disk, so that a power failure may
    /// have cut off its files: after another boot, their sizes are compared once.
    fn checked(&self) -> io::Result<Result<About>> {
        let mut about = self.about()?;
        let boot = boot()?;
        if about.boot == boot {
            return Ok(Ok(about));
        }
        let files = self.files().join(&about.below);
        for file in self.index()? {
            let size = fs::symlink_metadata(files.join(&file.path)).map(|found| found.len());
            if !size.is_ok_and(|size| size == file.size) {
                let message = format!(
                    "the snapshot is damaged: this machine lost power before its file `{}` was on the disk",
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
        write(&self.directory.join(name), &serde_json::to_vec(value)?)
    }

    /// Returns whether a program creates it just now.
    fn is_locked(&self) -> bool {
        File::open(self.directory.join("lock"))
            .is_ok_and(|lock| flock(&lock, FlockOperation::NonBlockingLockShared).is_err())
    }
}

/// Writes a small file, whole or not at all.
fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = tempfile::NamedTempFile::new_in(path.parent().unwrap_or(Path::new("/")))?;
    file.write_all(bytes)?;
    file.persist(path)?;
    Ok(())
}

/// Returns the ID of this boot of the machine.
fn boot() -> io::Result<String> {
    Ok(fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned())
}

#[allow(clippy::needless_pass_by_value, reason = "it is used with `map_err`")]
fn failed(error: io::Error) -> Error {
    Error::new(Code::Unavailable, format!("the files of a snapshot cannot be used: {}", error.kind()))
        .with_source(error)
}
