//! What is put together in a sandbox, to be moved to its place: noted on the host, where a start after a kill finds it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use data_encoding::HEXLOWER;
use koze_guest::message::{Place, Request};
use sha2::{Digest, Sha256};

use super::running::Running;
use koze_core::error::{Code, Error};

/// A note, and the path in the sandbox that it is about.
pub(super) struct Note {
    file: PathBuf,
    path: String,
}

/// Notes a path.
pub(super) fn note(directory: &Path, path: &str) -> io::Result<()> {
    fs::create_dir_all(notes(directory))?;
    fs::write(file(directory, path), path)
}

/// Takes the note of a path away, if there is one.
pub(super) fn forget(directory: &Path, path: &str) -> io::Result<()> {
    match fs::remove_file(file(directory, path)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// The notes that are left of a program that was killed. Only who has claimed the sandbox may ask. What cannot be read is
/// no reason for a sandbox not to start.
pub(super) fn left(directory: &Path) -> Vec<Note> {
    let note = |file: io::Result<fs::DirEntry>| {
        let file = file.ok()?.path();
        Some(Note { path: fs::read_to_string(&file).ok()?, file })
    };
    fs::read_dir(notes(directory)).into_iter().flatten().filter_map(note).collect()
}

/// Takes away what they are about. A sandbox that ends over it does so when it starts again.
pub(super) async fn sweep(running: &Running, left: Vec<Note>) {
    for Note { file, path } in left {
        let gone = running.call(&Request::Remove(Place { root: "/".into(), path })).await;
        if matches!(gone, Err(Error { code: Code::Unavailable, .. })) {
            return;
        }
        // Whose removal fails now, fails always: the note goes as well.
        let _ = fs::remove_file(file);
    }
}

fn notes(directory: &Path) -> PathBuf {
    directory.join("passing")
}

fn file(directory: &Path, path: &str) -> PathBuf {
    notes(directory).join(HEXLOWER.encode(&Sha256::digest(path)))
}
