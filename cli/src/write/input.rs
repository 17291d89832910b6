//! Reads files that somebody else may have prepared: only regular files, of a bounded size, without waiting.

use std::fs;
use std::io::{self, Read as _};
use std::path::Path;

use super::beneath;
use crate::platform;

/// The maximum size of a file, far more than any lock file of a package manager has.
const MAX: u64 = 64 << 20;

/// The size of the pieces in which a file is compared.
const PIECE: usize = 16 << 10;

/// Reads a regular file. Follows symbolic links.
///
/// # Errors
/// Returns the errors of the operating system, with the file's name, and an error if it is a pipe or a device, or too
/// large.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let (file, size) = open_file(path)?;
    read_rest(path, file, Vec::with_capacity(size))
}

/// The content of a file, compared with the expected one.
#[derive(Debug)]
pub(super) enum Current {
    /// The file does not exist.
    Missing,
    /// It is the expected one.
    Same,
    /// It is another one.
    Other(Vec<u8>),
}

/// Compares a regular file with an expected content. The file is read in pieces: as long as they are the expected ones,
/// none is kept.
///
/// # Errors
/// As [`read`].
pub(super) fn compare(path: &Path, expected: &[u8]) -> io::Result<Current> {
    let (mut file, size) = open_file(path)?;
    let mut piece = [0; PIECE];
    let mut rest = expected;
    loop {
        let count = match file.read(&mut piece) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            read => read?,
        };
        match rest.strip_prefix(&piece[..count]) {
            Some([]) if count == 0 => return Ok(Current::Same),
            Some(after) if count > 0 => rest = after,
            _ => {
                let same = expected.len() - rest.len();
                let mut bytes = Vec::with_capacity(size);
                bytes.extend_from_slice(&expected[..same]);
                bytes.extend_from_slice(&piece[..count]);
                return read_rest(path, file, bytes).map(Current::Other);
            }
        }
    }
}

/// Opens a regular file. Returns its size, too.
fn open_file(path: &Path) -> io::Result<(fs_err::File, usize)> {
    // Opening a device may have effects, so look first.
    let about = fs::metadata(path);
    if !beneath::is_left_out() && about.as_ref().is_ok_and(|about| !about.is_file() && !about.is_dir()) {
        return Err(read_error(path, "it is not a regular file"));
    }
    let size = about.map_or(0, |about| about.len().min(MAX));
    // One byte more, so that reading notices the end of the file without more room.
    Ok((platform::open_input(path)?, usize::try_from(size).unwrap_or_default() + 1))
}

/// Reads the rest of a file behind the bytes that were already read.
fn read_rest(path: &Path, mut file: fs_err::File, mut bytes: Vec<u8>) -> io::Result<Vec<u8>> {
    // Special files may be larger than they say, so count what is read.
    file.by_ref().take((MAX + 1).saturating_sub(bytes.len() as u64)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX {
        return Err(read_error(path, &format!("it is larger than {} MiB", MAX >> 20)));
    }
    Ok(bytes)
}

fn read_error(path: &Path, why: &str) -> io::Error {
    io::Error::other(format!("failed to read from file `{}`: {why}", path.display()))
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
