//! The operations that change the disk. Each passes a point for [faults](super::fault) and names its file when it fails.

use std::fs::{File, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use tempfile::{NamedTempFile, TempDir, TempPath};

use super::fault;

/// What ends the name of everything koze makes for the time of a run.
pub(super) const SUFFIX: &str = ".koze-tmp";

/// Runs an operation on a path.
fn operation<T>(what: &str, path: &Path, run: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    fault::point(what, path).and_then(|()| run()).map_err(|error| named(what, path, &error))
}

/// An error that says what failed, and of which file.
pub(super) fn named(what: &str, path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("failed to {what} `{}`: {error}", path.display()))
}

/// What stands in a file; none where there is no file.
pub(super) fn read(path: &Path) -> io::Result<Option<Vec<u8>>> {
    match fs_err::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// New content for `target`, on the disk, in a temporary file beside it.
pub(super) fn stage(target: &Path, content: &[u8], permissions: Option<Permissions>) -> io::Result<TempPath> {
    let (dir, name) = split(target);
    let new = || -> io::Result<NamedTempFile> {
        tempfile::Builder::new()
            .prefix(&format!(".{name}."))
            .suffix(SUFFIX)
            // As a new file of the user's would be; the umask applies.
            .permissions(Permissions::from_mode(0o666))
            .tempfile_in(dir)
    };
    let mut file = operation("write", target, new)?;
    operation("write", target, || file.as_file_mut().write_all(content))?;
    if let Some(permissions) = permissions {
        operation("write", target, || file.as_file().set_permissions(permissions))?;
    }
    operation("write", target, || file.as_file().sync_all())?;
    Ok(file.into_temp_path())
}

/// Whether a file beside `target` is one that [`stage`] makes for it.
pub(super) fn is_staged(name: &str, target: &Path) -> bool {
    let random =
        name.strip_prefix(&format!(".{}.", split(target).1)).and_then(|rest| rest.strip_suffix(SUFFIX));
    random.is_some_and(is_random)
}

/// Whether this is what tempfile puts between a prefix and a suffix.
fn is_random(part: &str) -> bool {
    part.len() == 6 && part.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

/// A file's directory and its name.
pub(super) fn split(path: &Path) -> (&Path, String) {
    let dir = path.parent().unwrap_or(Path::new("."));
    (dir, path.file_name().unwrap_or_default().to_string_lossy().into_owned())
}

/// Writes a file that nobody reads before it is renamed with its directory.
pub(crate) fn write(path: &Path, content: &[u8]) -> io::Result<()> {
    operation("write", path, || std::fs::write(path, content))
}

pub(crate) fn rename(from: &Path, to: &Path) -> io::Result<()> {
    operation("write", to, || std::fs::rename(from, to))
}

pub(super) fn remove_file(path: &Path) -> io::Result<()> {
    operation("remove", path, || std::fs::remove_file(path))
}

pub(crate) fn remove_dir_all(dir: &Path) -> io::Result<()> {
    operation("remove", dir, || std::fs::remove_dir_all(dir))
}

/// A directory for the time of a run, in `parent`, named `<prefix>??????.koze-tmp`.
pub(crate) fn temp_dir(parent: &Path, prefix: &str) -> io::Result<TempDir> {
    let mut builder = tempfile::Builder::new();
    // As any new directory of the user's; the umask applies.
    builder.prefix(prefix).suffix(SUFFIX).permissions(Permissions::from_mode(0o777));
    operation("create", parent, || builder.tempdir_in(parent))
}

/// Whether a name is one that [`temp_dir`] gives.
pub(crate) fn is_temp_dir(name: &str, prefix: &str) -> bool {
    name.strip_prefix(prefix).and_then(|rest| rest.strip_suffix(SUFFIX)).is_some_and(is_random)
}

pub(super) fn create_dir(dir: &Path) -> io::Result<()> {
    operation("create", dir, || std::fs::create_dir(dir))
}

/// Makes what happened in a directory last; where the file system cannot, each file still is whole.
pub(super) fn sync_dir(dir: &Path) {
    let _ = operation("sync", dir, || File::open(dir)?.sync_all());
}
