//! Wakes a thread that polls file descriptors.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{EventfdFlags, eventfd};

/// An event file descriptor: readable from the first [`ring`](Self::ring) until [`hush`](Self::hush).
#[derive(Debug)]
pub struct Bell(OwnedFd);

impl Bell {
    /// Creates one that is not readable.
    pub fn new() -> io::Result<Self> {
        Ok(Bell(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
    }

    /// Makes it readable.
    pub fn ring(&self) {
        // This fails only after 2^64 calls.
        let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }

    /// Resets it.
    pub fn hush(&self) {
        let _ = rustix::io::read(&self.0, &mut [0; 8]);
    }
}

impl AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
