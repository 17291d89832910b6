//! The layout of a sandbox's files on the host.

use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::removal;
use crate::weakness::Weaknesses;

/// A sandbox's own directories: their path below its directory on the host, their path in the sandbox, and their mode.
pub(crate) const OWN: &[(&str, &str, u32)] = &[
    ("files/home", "home/user", 0o755),
    ("files/workspace", "workspace", 0o755),
    ("files/tmp", "tmp", 0o1777),
    ("files/user-data", "mnt/user-data", 0o755),
    ("files/user-data/workspace", "", 0o755),
    ("files/user-data/uploads", "", 0o755),
    ("files/user-data/outputs", "", 0o755),
];

/// A sandbox's own directory, and a path below it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Own {
    /// The directory's path below that of the sandbox on the host.
    pub(crate) path: &'static str,
    /// Its path in the sandbox, without the leading slash.
    pub(crate) target: &'static str,
    /// The rest of the path, empty for the directory itself.
    pub(crate) below: String,
}

/// Finds the own directory that a path in a sandbox is in.
pub(crate) fn find_own(path: &str) -> Option<Own> {
    let path = path.strip_prefix('/')?;
    if path.split('/').any(|part| matches!(part, "" | "." | "..")) {
        return None;
    }
    let within = |(own, target, _): &(&'static str, &'static str, u32)| {
        let below = path.strip_prefix(target).filter(|_| !target.is_empty())?;
        let below = if below.is_empty() { below } else { below.strip_prefix('/')? };
        Some(Own { path: own, target, below: below.to_owned() })
    };
    OWN.iter().find_map(within)
}

/// Returns the directory of a sandbox on the host.
pub(crate) fn sandbox_directory(state: &Path, key: &str) -> PathBuf {
    use std::fmt::Write;
    let mut name = String::new();
    for byte in Sha256::digest(key) {
        let _ = write!(name, "{byte:02x}");
    }
    state.join(name)
}

/// Creates the missing parts of a sandbox's directory.
pub(crate) fn create_missing_parts(directory: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    fs::DirBuilder::new().recursive(true).mode(0o711).create(directory.join("files"))
}

/// Creates what is missing of a sandbox's own directories, and returns its user on the host. Claim the sandbox first.
pub(crate) fn create_own_directories(directory: &Path, weak: &Weaknesses) -> io::Result<Option<u32>> {
    let owner = super::owner::settle_owner(directory, weak)?;
    create_owned_directories(directory, owner)?;
    Ok(owner)
}

/// Creates what is missing of the directories that a sandbox's user owns.
pub(crate) fn create_owned_directories(directory: &Path, owner: Option<u32>) -> io::Result<()> {
    for (path, _, mode) in OWN {
        create_owned_directory(&directory.join(path), *mode, owner)?;
    }
    Ok(())
}

/// Creates a directory that a sandbox's user owns, if it is missing.
pub(crate) fn create_owned_directory(path: &Path, mode: u32, owner: Option<u32>) -> io::Result<()> {
    // The sandbox's user may have replaced it with a link, which must not be followed.
    match fs::create_dir(path) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(()),
        Err(error) => return Err(error),
    }
    fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
    std::os::unix::fs::lchown(path, owner, owner)
}

/// Creates the work directory of an overlay again, without what an earlier run left behind.
pub(crate) fn renew_work_directory(path: &Path, owner: Option<u32>) -> io::Result<()> {
    if path.exists() {
        removal::remove_directory(path)?;
    }
    create_owned_directory(path, 0o700, owner)
}
