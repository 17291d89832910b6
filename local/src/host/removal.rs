//! Removes directories of the state directory, also after their removal was interrupted.

use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// The directory to which a destroyed sandbox's files are moved atomically, before they are removed.
pub(crate) fn gone_name(directory: &Path) -> PathBuf {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    directory.with_file_name(format!("gone-{}-{now}", std::process::id()))
}

/// Removes the files of sandboxes whose destruction was interrupted.
pub(crate) fn finish_removals(state: &Path) {
    for entry in fs::read_dir(state).into_iter().flatten().flatten() {
        if entry.file_name().to_string_lossy().starts_with("gone-") {
            let _ = remove_directory(&entry.path());
        }
    }
}

/// Removes a directory regardless of the permissions in it.
pub(crate) fn remove_directory(directory: &Path) -> io::Result<()> {
    let (Some(above), Some(name)) = (directory.parent(), directory.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    koze_guest::tree::remove(fs::File::open(above)?.as_fd(), name, true)
}
