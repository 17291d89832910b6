//! The operations that change the disk. Each passes a [`fault`] point, and its errors name the file.

use std::fs::{File, Permissions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use tempfile::{NamedTempFile, TempDir, TempPath};

use super::fault;
use super::input::{self, Current};
use crate::platform;

/// The suffix of koze's temporary files.
pub(super) const SUFFIX: &str = ".koze-tmp";

/// Runs an operation on a path.
fn run_operation<T>(what: &'static str, path: &Path, run: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    fault::point(what, path).and_then(|()| run()).map_err(|error| named(what, path, error))
}

/// Creates an error that names the failed operation and the file.
pub(super) fn named(what: &'static str, path: &Path, source: io::Error) -> io::Error {
    io::Error::new(source.kind(), Named { what, path: path.to_owned(), source })
}

/// An error of the operating system, with what failed.
#[derive(Debug, thiserror::Error)]
#[error("failed to {what} `{}`: {source}", path.display())]
struct Named {
    what: &'static str,
    path: PathBuf,
    source: io::Error,
}

/// Reads a file. Returns `None` if it does not exist.
pub(super) fn read(path: &Path) -> io::Result<Option<Vec<u8>>> {
    match input::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Compares a file with the content that it should have.
pub(super) fn compare(path: &Path, expected: &[u8]) -> io::Result<Current> {
    match input::compare(path, expected) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Current::Missing),
        compared => compared,
    }
}

/// Writes new content for `target` to a temporary file next to it.
pub(crate) fn stage(target: &Path, content: &[u8], permissions: Option<Permissions>) -> io::Result<TempPath> {
    let (dir, name) = split(target);
    let new = || -> io::Result<NamedTempFile> {
        let prefix = format!(".{name}.");
        let mut builder = tempfile::Builder::new();
        builder.prefix(&prefix).suffix(SUFFIX);
        platform::like_new_file(&mut builder);
        builder.tempfile_in(dir)
    };
    let mut file = run_operation("write", target, new)?;
    run_operation("write", target, || file.as_file_mut().write_all(content))?;
    if let Some(permissions) = permissions {
        run_operation("write", target, || file.as_file().set_permissions(permissions))?;
    }
    run_operation("write", target, || file.as_file().sync_all())?;
    Ok(file.into_temp_path())
}

/// Returns whether a file next to `target` is one that [`stage`] creates for it.
pub(super) fn is_staged(name: &str, target: &Path) -> bool {
    let random =
        name.strip_prefix(&format!(".{}.", split(target).1)).and_then(|rest| rest.strip_suffix(SUFFIX));
    random.is_some_and(is_random)
}

/// Returns whether this is the random part that tempfile puts between prefix and suffix.
fn is_random(part: &str) -> bool {
    part.len() == 6 && part.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

/// Splits a path into directory and file name.
pub(crate) fn split(path: &Path) -> (&Path, String) {
    let dir = path.parent().unwrap_or(Path::new("."));
    (dir, path.file_name().unwrap_or_default().to_string_lossy().into_owned())
}

/// Writes a file that nobody reads before its directory is renamed.
pub(crate) fn write(path: &Path, content: &[u8]) -> io::Result<()> {
    run_operation("write", path, || std::fs::write(path, content))
}

pub(crate) fn rename(from: &Path, to: &Path) -> io::Result<()> {
    run_operation("write", to, || std::fs::rename(from, to))
}

pub(super) fn remove_file(path: &Path) -> io::Result<()> {
    run_operation("remove", path, || std::fs::remove_file(path))
}

pub(crate) fn remove_dir_all(dir: &Path) -> io::Result<()> {
    run_operation("remove", dir, || std::fs::remove_dir_all(dir))
}

/// Creates a temporary directory in `parent`, named `<prefix>??????.koze-tmp`.
pub(crate) fn temp_dir(parent: &Path, prefix: &str) -> io::Result<TempDir> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(prefix).suffix(SUFFIX);
    platform::like_new_directory(&mut builder);
    run_operation("create", parent, || builder.tempdir_in(parent))
}

/// Returns whether a name has the form of [`temp_dir`].
pub(crate) fn is_temp_dir(name: &str, prefix: &str) -> bool {
    name.strip_prefix(prefix).and_then(|rest| rest.strip_suffix(SUFFIX)).is_some_and(is_random)
}

pub(super) fn create_dir(dir: &Path) -> io::Result<()> {
    run_operation("create", dir, || std::fs::create_dir(dir))
}

/// Creates a directory and its missing parents for this user alone.
pub(crate) fn create_private(dir: &Path) -> io::Result<()> {
    run_operation("create", dir, || platform::create_private(dir))
}

/// Syncs a directory to disk. Where the file system does not support it, each file is still complete.
pub(super) fn sync_dir(dir: &Path) {
    let _ = run_operation("sync", dir, || File::open(dir)?.sync_all());
}
