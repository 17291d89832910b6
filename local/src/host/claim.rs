//! Locks that let one program at a time run a sandbox.

use std::fs::File;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::FlockOperation;

use crate::errors::state_failed;
use koze_core::error::{Code, Error, Result};

/// How long to wait for a sandbox that another program is about to release.
const TIMEOUT: Duration = Duration::from_secs(3);

/// Claims a sandbox for this program. Two programs would run the same files with processes that do not see each other.
pub(crate) fn claim_sandbox(directory: &Path) -> Result<File> {
    let until = Instant::now() + TIMEOUT;
    let lock = File::create(directory.join("lock")).map_err(state_failed)?;
    loop {
        match rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(lock),
            Err(rustix::io::Errno::WOULDBLOCK) if Instant::now() < until => {
                std::thread::sleep(Duration::from_millis(10));
            }
            Err(rustix::io::Errno::WOULDBLOCK) => return Err(claimed_error()),
            Err(error) => return Err(state_failed(error.into())),
        }
    }
}

/// Returns the error for a sandbox that another program runs.
pub(crate) fn claimed_error() -> Error {
    let text = "another koze process on this machine runs this sandbox; use that process, or end it";
    Error::new(Code::Unavailable, text)
}

/// Returns whether any program on this machine runs the sandbox in the directory.
pub(crate) fn is_claimed(directory: &Path) -> bool {
    File::open(directory.join("lock")).is_ok_and(|lock| {
        rustix::fs::flock(&lock, FlockOperation::NonBlockingLockShared) == Err(rustix::io::Errno::WOULDBLOCK)
    })
}
