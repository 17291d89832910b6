//! Wakes a thread that polls file descriptors.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{EventfdFlags, eventfd};

/// An event file descriptor: readable from the first [`notify`](Self::notify) until [`reset`](Self::reset).
#[derive(Debug)]
pub struct Wakeup(OwnedFd);

impl Wakeup {
    /// Creates one that is not readable.
    pub fn new() -> io::Result<Self> {
        Ok(Wakeup(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
    }

    /// Makes it readable.
    pub fn notify(&self) {
        // This fails only after 2^64 calls.
        let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }

    /// Resets it.
    pub fn reset(&self) {
        let _ = rustix::io::read(&self.0, &mut [0; 8]);
    }
}

impl AsFd for Wakeup {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
