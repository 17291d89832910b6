//! The host's ends of the pipes or the terminal of a process.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::fs::OFlags;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

use crate::engine::engine;
use crate::engine::ready::watch_descriptor;

/// The host's end of the pipe or terminal that a process reads from.
#[derive(Debug)]
pub(super) struct Input(pub(super) AsyncFd<Arc<OwnedFd>>);

impl Input {
    pub(super) fn new(descriptor: OwnedFd) -> std::io::Result<Self> {
        let flags = rustix::fs::fcntl_getfl(&descriptor)?;
        rustix::fs::fcntl_setfl(&descriptor, flags | OFlags::NONBLOCK)?;
        let _engine = engine().map_err(std::io::Error::other)?.enter();
        Ok(Input(watch_descriptor(Arc::new(descriptor), Interest::WRITABLE)?))
    }

    /// Waits until it may be writable.
    pub(super) async fn writable(&self) {
        if let Ok(mut ready) = self.0.writable().await {
            ready.clear_ready();
        }
    }
}

/// A stream of a process.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) stream: u8,
    pub(super) descriptor: AsyncFd<Arc<OwnedFd>>,
}

impl Source {
    pub(super) fn new(stream: u8, descriptor: Arc<OwnedFd>) -> std::io::Result<Self> {
        let flags = rustix::fs::fcntl_getfl(&descriptor)?;
        rustix::fs::fcntl_setfl(&descriptor, flags | OFlags::NONBLOCK)?;
        let _engine = engine().map_err(std::io::Error::other)?.enter();
        Ok(Source { stream, descriptor: watch_descriptor(descriptor, Interest::READABLE)? })
    }

    /// Waits until the stream may be readable.
    pub(super) async fn ready(&self) {
        if let Ok(mut ready) = self.descriptor.readable().await {
            // Existing output is read next, and the kernel reports new output.
            ready.clear_ready();
        }
    }
}
