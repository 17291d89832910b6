//! Reads files that somebody else may have prepared: only regular files, of a bounded size, without waiting.

use std::fs;
use std::io::{self, Read as _};
use std::path::Path;

use super::beneath;
use crate::platform;

/// The maximum size of a file, far more than any lock file of a package manager has.
const MAX: u64 = 64 << 20;

/// Reads a regular file. Follows symbolic links.
///
/// # Errors
/// Returns the errors of the operating system, with the file's name, and an error if it is a pipe or a device, or too
/// large.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let refused =
        |why: &str| io::Error::other(format!("failed to read from file `{}`: {why}", path.display()));
    // Opening a device may have effects, so look first.
    if !beneath::is_left_out() && fs::metadata(path).is_ok_and(|about| !about.is_file() && !about.is_dir()) {
        return Err(refused("it is not a regular file"));
    }
    let mut file = platform::open_input(path)?;
    let mut bytes = Vec::new();
    // Special files may be larger than they say, so count what is read.
    file.by_ref().take(MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX {
        return Err(refused(&format!("it is larger than {} MiB", MAX >> 20)));
    }
    Ok(bytes)
}

/// Reads a text file as [`read`] does.
///
/// # Errors
/// As [`read`], and an error if it is not UTF-8.
pub fn read_text(path: &Path) -> io::Result<String> {
    String::from_utf8(read(path)?).map_err(|_| {
        let text =
            format!("failed to read from file `{}`: stream did not contain valid UTF-8", path.display());
        io::Error::new(io::ErrorKind::InvalidData, text)
    })
}

/// Reads a regular file in `root`, as [`beneath::resolve`] finds it.
///
/// # Errors
/// As [`read`] and [`beneath::resolve`].
pub fn read_in(root: &Path, path: &Path) -> io::Result<Vec<u8>> {
    read(&beneath::resolve(root, path)?)
}

/// Reads a text file as [`read_in`] does.
///
/// # Errors
/// As [`read_in`] and [`read_text`].
pub fn read_text_in(root: &Path, path: &Path) -> io::Result<String> {
    read_text(&beneath::resolve(root, path)?)
}
