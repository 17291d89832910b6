//! Which program runs a sandbox: one at a time.

use std::fs::File;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::FlockOperation;

use super::sandbox::state_failed;
use koze_core::error::{Code, Error, Result};

/// How long a sandbox that another program is about to let go of is waited for.
const PATIENCE: Duration = Duration::from_secs(3);

/// Takes a sandbox for this program alone. Two would run the same files with processes that do not see each other.
pub(super) fn claim(directory: &Path) -> Result<File> {
    let until = Instant::now() + PATIENCE;
    let lock = File::create(directory.join("lock")).map_err(|error| state_failed(&error))?;
    loop {
        match rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(lock),
            Err(rustix::io::Errno::WOULDBLOCK) if Instant::now() < until => {
                std::thread::sleep(Duration::from_millis(10));
            }
            Err(rustix::io::Errno::WOULDBLOCK) => return Err(elsewhere()),
            Err(error) => return Err(state_failed(&error.into())),
        }
    }
}

/// The error of a sandbox that another program runs.
pub(super) fn elsewhere() -> Error {
    let text = "another koze process on this machine runs this sandbox; use that process, or end it";
    Error::new(Code::Unavailable, text)
}

/// Whether any program on this machine runs the sandbox in the directory.
pub(super) fn claimed(directory: &Path) -> bool {
    File::open(directory.join("lock")).is_ok_and(|lock| {
        rustix::fs::flock(&lock, FlockOperation::NonBlockingLockShared) == Err(rustix::io::Errno::WOULDBLOCK)
    })
}
