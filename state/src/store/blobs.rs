//! The files of blobs. A file is locked while it is written, and referenced by the database from then on. A file that is
//! neither locked nor referenced was left by a killed process.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use koze_core::error::{Code, Error, Result};
use rustix::fs::{FlockOperation, flock};

use super::database::Database;

/// The directory of the files.
#[derive(Debug)]
pub(super) struct Blobs(PathBuf);

/// A blob that is being written. Dropping it deletes the file.
#[derive(Debug)]
pub(super) struct Upload {
    file: File,
    path: PathBuf,
    name: String,
    /// The number of bytes written.
    pub(super) size: u64,
    kept: bool,
}

impl Blobs {
    /// Opens the directory of a state directory. Creates it if it is missing.
    pub(super) fn open(state: &Path) -> Result<Self> {
        let directory = state.join("blobs");
        DirBuilder::new().recursive(true).mode(0o700).create(&directory).map_err(blob_error)?;
        Ok(Blobs(directory))
    }

    /// Creates a file for a new blob.
    pub(super) fn create(&self) -> Result<Upload> {
        loop {
            let name = uuid::Uuid::new_v4().simple().to_string();
            let path = self.0.join(&name);
            let file = OpenOptions::new()
                .write(true)
                .create_new(true)
                .mode(0o600)
                .open(&path)
                .map_err(blob_error)?;
            flock(&file, FlockOperation::LockExclusive).map_err(|error| blob_error(error.into()))?;
            // Another program may have swept the file before it was locked.
            if file.metadata().map_err(blob_error)?.nlink() > 0 {
                return Ok(Upload { file, path, name, size: 0, kept: false });
            }
        }
    }

    /// Reads at most `limit` bytes from `offset`. Returns `None` if the file does not exist.
    pub(super) fn read(&self, name: &str, offset: u64, limit: u64) -> Result<Option<Vec<u8>>> {
        let file = match File::open(self.0.join(name)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file.map_err(blob_error)?,
        };
        let left = file.metadata().map_err(blob_error)?.len().saturating_sub(offset);
        let mut bytes = vec![0; usize::try_from(limit.min(left)).unwrap_or(usize::MAX)];
        file.read_exact_at(&mut bytes, offset).map_err(blob_error)?;
        Ok(Some(bytes))
    }

    /// Deletes a file. If that fails, the next program deletes it.
    pub(super) fn remove(&self, name: &str) {
        let _ = fs::remove_file(self.0.join(name));
    }

    /// Deletes the files that killed processes have left.
    pub(super) fn sweep(&self, database: &Database) -> Result<()> {
        for entry in fs::read_dir(&self.0).map_err(blob_error)?.flatten() {
            let Ok(name) = entry.file_name().into_string() else { continue };
            let Ok(file) = File::open(entry.path()) else { continue };
            let locked = flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok();
            // Only after the lock: the file may have been recorded meanwhile.
            if locked && !database.has_file(&name)? {
                self.remove(&name);
            }
        }
        Ok(())
    }
}

impl Upload {
    /// Appends bytes. If that fails, the file is deleted.
    pub(super) fn write(mut self, bytes: &[u8]) -> Result<Self> {
        self.file.write_all(bytes).map_err(blob_error)?;
        self.size += bytes.len() as u64;
        Ok(self)
    }

    /// Writes everything to the disk. Returns the name of the file.
    pub(super) fn sync(&self) -> Result<&str> {
        self.file.sync_all().map_err(blob_error)?;
        Ok(&self.name)
    }

    /// Keeps the file, once the database refers to it.
    pub(super) fn keep(mut self) {
        self.kept = true;
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        if !self.kept {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Returns the error for a blob whose file was deleted by something other than koze.
pub(super) fn lost_error() -> Error {
    Error::new(
        Code::Internal,
        "the content of this blob is lost: its file was deleted from the state directory",
    )
}

#[allow(clippy::needless_pass_by_value, reason = "it is used with `map_err`")]
fn blob_error(error: io::Error) -> Error {
    Error::new(Code::Unavailable, format!("the store cannot be used: {}", error.kind())).with_source(error)
}
