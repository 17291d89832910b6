//! koze's state directory of this user, which no repository can contain: the journals of builds, the configurations that
//! the user has named, and, on Linux, the state of sandboxes.

use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

use crate::paths;
use crate::platform;
use crate::write::{disk, input};

/// Returns the directory; `None` if the environment names none.
pub(crate) fn dir() -> Option<PathBuf> {
    Some(platform::state_home()?.join("koze"))
}

/// Returns the path of a file about a package, whose directory is canonical. Its name depends on the package's path.
///
/// # Errors
/// Returns an error if there is no state directory, or it is not this user's alone.
pub(crate) fn file(package: &Path, suffix: &str) -> io::Result<PathBuf> {
    let dir = dir().ok_or_else(|| io::Error::other("the environment names no directory for it"))?;
    platform::check_private(&dir)?;
    let digest = Sha256::digest(package.as_os_str().as_encoded_bytes());
    let name = digest.iter().take(16).fold(String::new(), |mut name, byte| {
        let _ = write!(name, "{byte:02x}");
        name
    });
    Ok(dir.join(format!("{name}.{suffix}")))
}

/// Creates the directory of such a file, and checks that nobody else created it first.
pub(crate) fn create_dir_of(file: &Path) -> io::Result<()> {
    let dir = disk::split(file).0;
    if !dir.is_dir() {
        disk::create_private(dir)?;
    }
    platform::check_private(dir)
}

/// The suffix of the files that name a configuration.
const CONFIG: &str = "config";

/// Remembers that the user named this configuration for a package. The record in `koze.lock` does not count outside the
/// repository, because somebody else may have written it.
///
/// # Errors
/// Returns the errors of [`file()`] and of the operating system.
pub(crate) fn remember_config(package: &Path, config: &Path) -> io::Result<()> {
    if is_remembered(package, config) {
        return Ok(());
    }
    let path = file(package, CONFIG)?;
    create_dir_of(&path)?;
    let staged = disk::stage(&path, config.as_os_str().as_encoded_bytes(), None)?;
    disk::rename(&staged, &path)
}

/// Returns whether the user named this configuration for a package.
pub(crate) fn is_remembered(package: &Path, config: &Path) -> bool {
    let read = || input::read(&file(package, CONFIG).ok()?).ok();
    let config = paths::canonical(config).unwrap_or_else(|_| config.to_owned());
    read().is_some_and(|named| named == config.as_os_str().as_encoded_bytes())
}
