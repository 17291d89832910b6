//! Warns before the tests if they may fill the disk.

use std::path::Path;

/// What a whole run writes, in GB.
const NEEDED: u64 = 18;

/// Warns if a directory has less space than a whole run needs. Sandboxes are the first to fail on a full disk, because only root
/// may use the reserve, and their errors do not say so.
pub(super) fn check(directory: &Path) {
    if let Some(free) = free(directory).map(|bytes| bytes / 1_000_000_000).filter(|free| *free < NEEDED) {
        eprintln!(
            "warning: {free} GB of the disk are free, and a whole run may need {NEEDED} GB: delete what earlier builds left, such as \
             `target` directories, if tests fail with `No space left on device`"
        );
    }
}

/// Returns the space that is free for users other than root, in bytes.
#[cfg(unix)]
fn free(directory: &Path) -> Option<u64> {
    let found = rustix::fs::statvfs(directory).ok()?;
    Some(found.f_bavail * found.f_frsize)
}

#[cfg(not(unix))]
fn free(_: &Path) -> Option<u64> {
    None
}
