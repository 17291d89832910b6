//! Creates the directories and control groups of the next sandbox ahead, before its name is known. Creating them takes as long
//! as a short command.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError, Weak};
use std::time::Duration;

use rustix::fs::{CWD, FlockOperation, RenameFlags};
use rustix::io::Errno;

use crate::Shared;
use crate::cgroup::Group;
use crate::engine::engine;
use crate::host::{layout, removal};

/// The delay after a start, so that the sandbox's first program has the processors for itself.
const PAUSE: Duration = Duration::from_millis(5);
/// The directory of prepared directories, next to those of sandboxes.
const PLACE: &str = "ahead";

/// What is prepared for a state directory.
#[derive(Debug, Default)]
pub(crate) struct Ahead {
    directory: Mutex<Option<Directory>>,
    group: Mutex<Option<Group>>,
}

/// A directory that no sandbox uses yet.
#[derive(Debug)]
struct Directory {
    path: PathBuf,
    /// The lock that [`claim`](crate::host::claim) takes. It stays locked when the directory is renamed.
    lock: File,
}

/// Prepares the next start of a sandbox, after a delay.
pub(super) fn prepare_next(provider: Weak<Shared>) {
    let Ok(engine) = engine() else { return };
    engine.spawn(async move {
        tokio::time::sleep(PAUSE).await;
        let prepare = move || {
            if let Some(provider) = provider.upgrade() {
                provider.ahead.prepare(&provider.state);
            }
        };
        let _ = tokio::task::spawn_blocking(prepare).await;
    });
}

impl Ahead {
    /// Prepares what is missing. Errors are ignored: the next start creates the rest, and reports why it cannot.
    fn prepare(&self, state: &Path) {
        let mut directory = self.directory.lock().unwrap_or_else(PoisonError::into_inner);
        if directory.is_none() {
            *directory = Directory::new(state).ok();
        }
        let mut group = self.group.lock().unwrap_or_else(PoisonError::into_inner);
        if group.is_none() {
            *group = Group::new();
        }
    }

    /// Renames the prepared directory to that of a new sandbox, and returns its lock. Returns `None` if none is prepared, or if
    /// the sandbox already has a directory.
    pub(crate) fn directory(&self, place: &Path) -> Option<File> {
        let mut prepared = self.directory.lock().unwrap_or_else(PoisonError::into_inner);
        let directory = prepared.take()?;
        match rustix::fs::renameat_with(CWD, &directory.path, CWD, place, RenameFlags::NOREPLACE) {
            Ok(()) => return Some(directory.lock),
            // The sandbox exists already.
            Err(Errno::EXIST) => *prepared = Some(directory),
            // It was deleted, or the file system does not support the flag.
            Err(_) => drop(removal::remove_directory(&directory.path)),
        }
        None
    }

    /// Returns the prepared control group, or creates one. It has no limits yet.
    pub(crate) fn group(&self) -> Option<Group> {
        let prepared = self.group.lock().unwrap_or_else(PoisonError::into_inner).take();
        prepared.or_else(Group::new)
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        if let Some(directory) = self.directory.get_mut().ok().and_then(Option::take) {
            let _ = removal::remove_directory(&directory.path);
        }
    }
}

impl Directory {
    fn new(state: &Path) -> io::Result<Self> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let place = state.join(PLACE);
        let path = place.join(format!("{}-{count}", std::process::id()));
        let make = || DirBuilder::new().mode(0o700).create(&path);
        if let Err(error) = make() {
            if error.kind() != io::ErrorKind::NotFound {
                return Err(error);
            }
            DirBuilder::new().mode(0o700).create(&place)?;
            make()?;
        }
        let lock = File::create(path.join("lock"))?;
        // Fails if another program sweeps it just now.
        rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
        if let Err(error) =
            layout::create_missing_parts(&path).and_then(|()| layout::create_owned_directories(&path, None))
        {
            let _ = removal::remove_directory(&path);
            return Err(error);
        }
        Ok(Directory { path, lock })
    }
}

/// Deletes the prepared directories of programs that no longer run.
pub(crate) fn sweep_prepared(state: &Path) {
    for entry in fs::read_dir(state.join(PLACE)).into_iter().flatten().flatten() {
        match File::open(entry.path().join("lock")) {
            Ok(lock) => {
                if rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok() {
                    let _ = removal::remove_directory(&entry.path());
                }
            }
            // Another program may be creating it. A directory with entries stays.
            Err(_) => drop(fs::remove_dir(entry.path())),
        }
    }
}
