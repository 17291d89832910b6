//! Registers descriptors with tokio.
#![allow(unsafe_code, reason = "tokio requires that the descriptor stays open")]

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Registers a shared descriptor for reading or for writing. Not for both: a reader would wake up each time the peer
/// has read. Call this within a runtime.
pub(crate) fn watch_descriptor(
    descriptor: Arc<OwnedFd>,
    interest: Interest,
) -> io::Result<AsyncFd<Arc<OwnedFd>>> {
    // SAFETY: an OwnedFd stays open until it is dropped, and the returned value holds it.
    Ok(unsafe { AsyncFd::register_with_interest(descriptor, interest) }?)
}
