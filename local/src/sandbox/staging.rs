//! Staging paths in a sandbox, recorded on the host so that the next start after a crash can clean them up.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use data_encoding::HEXLOWER;
use koze_core::sandbox::Change;
use koze_guest::message::{Place, Request};
use sha2::{Digest, Sha256};

use super::running::Running;
use koze_core::error::{Code, Error};

/// A record, and its path in the sandbox.
pub(super) struct Note {
    file: PathBuf,
    path: String,
}

/// Records a path.
pub(super) fn record_path(directory: &Path, path: &str) -> io::Result<()> {
    fs::create_dir_all(records_directory(directory))?;
    fs::write(record_file(directory, path), path)
}

/// Removes the record of a path, if any.
pub(super) fn forget_path(directory: &Path, path: &str) -> io::Result<()> {
    match fs::remove_file(record_file(directory, path)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Returns the records that a killed program has left. Claim the sandbox first. Unreadable records are ignored, so that
/// they do not keep the sandbox from starting.
pub(super) fn left_records(directory: &Path) -> Vec<Note> {
    let note = |file: io::Result<fs::DirEntry>| {
        let file = file.ok()?.path();
        Some(Note { path: fs::read_to_string(&file).ok()?, file })
    };
    fs::read_dir(records_directory(directory)).into_iter().flatten().filter_map(note).collect()
}

/// Removes the recorded paths. If the sandbox ends meanwhile, its next start does so.
pub(super) async fn remove_recorded(running: &Running, left: Vec<Note>) {
    for Note { file, path } in left {
        let gone = running.call(&Request::Change(Change::Remove(Place { root: "/".into(), path }))).await;
        if matches!(gone, Err(Error { code: Code::Unavailable, .. })) {
            return;
        }
        // A removal that fails now would always fail, so the record is removed too.
        let _ = fs::remove_file(file);
    }
}

fn records_directory(directory: &Path) -> PathBuf {
    directory.join("passing")
}

fn record_file(directory: &Path, path: &str) -> PathBuf {
    records_directory(directory).join(HEXLOWER.encode(&Sha256::digest(path)))
}
