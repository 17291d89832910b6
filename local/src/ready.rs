//! Descriptors that tokio watches.
#![allow(unsafe_code, reason = "tokio wants a promise that the descriptor stays open")]

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Watches a descriptor that others may use too, for when it is readable, or for when it is writable. Not for both: who
/// only waits to read would be woken up each time the other side has read. To be called in a runtime.
pub(super) fn watched(descriptor: Arc<OwnedFd>, interest: Interest) -> io::Result<AsyncFd<Arc<OwnedFd>>> {
    // SAFETY: an OwnedFd is open until it is dropped and is always the same one; what is returned keeps it.
    Ok(unsafe { AsyncFd::register_with_interest(descriptor, interest) }?)
}
