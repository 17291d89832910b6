//! The lock of a store. Programs that add to the store share the lock; a program that removes from it holds the lock alone.

use std::fs::{self, File};
use std::time::{Duration, Instant};

use rustix::fs::FlockOperation;
use rustix::io::Errno;

use crate::errors::{Error, Result, at};
use crate::remove::remove_tree;
use crate::store::Store;

/// How long to wait for processes that add images.
const TIMEOUT: Duration = Duration::from_secs(5);
const INTERVAL: Duration = Duration::from_millis(50);

impl Store {
    /// Keeps others from removing anything until the file is dropped.
    pub(crate) fn lock_shared(&self) -> Result<File> {
        let lock = self.open_lock()?;
        rustix::fs::flock(&lock, FlockOperation::LockShared)
            .map_err(|error| at("lock", &self.directory)(error.into()))?;
        Ok(lock)
    }

    /// Waits until nobody adds anything, and keeps others from it until the file is dropped.
    pub(crate) fn lock_exclusive(&self) -> Result<File> {
        let until = Instant::now() + TIMEOUT;
        loop {
            if let Some(lock) = self.try_lock_exclusive()? {
                return Ok(lock);
            }
            if Instant::now() > until {
                let text =
                    "another koze process is adding an image to the store: repeat this when it is done";
                return Err(Error::Busy(text.to_owned()));
            }
            std::thread::sleep(INTERVAL);
        }
    }

    /// Removes what processes that were killed left behind, unless somebody adds something just now.
    pub(crate) fn remove_leftovers(&self) -> Result<()> {
        let Some(_lock) = self.try_lock_exclusive()? else { return Ok(()) };
        let staging = self.staging();
        for entry in fs::read_dir(&staging).map_err(at("read", &staging))? {
            let entry = entry.map_err(at("read", &staging))?;
            let path = entry.path();
            let is_directory = entry.file_type().map_err(at("read", &path))?.is_dir();
            let removed = if is_directory { remove_tree(&path) } else { fs::remove_file(&path) };
            removed.map_err(at("remove", &path))?;
        }
        Ok(())
    }

    fn try_lock_exclusive(&self) -> Result<Option<File>> {
        let lock = self.open_lock()?;
        match rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(lock)),
            Err(Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(at("lock", &self.directory)(error.into())),
        }
    }

    fn open_lock(&self) -> Result<File> {
        let path = self.directory.join("lock");
        File::create(&path).map_err(at("open", &path))
    }
}
