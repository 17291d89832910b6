//! The end of the process that started this one.

use std::future::pending;
use std::os::fd::OwnedFd;
use std::thread;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::retry_on_intr;
use rustix::process::{PidfdFlags, getppid, pidfd_open};
use tokio::sync::oneshot;

/// The parent of this process. Another process may hold the other end of standard input when it is gone, so the end of that stream
/// does not tell.
#[derive(Debug)]
pub(super) enum Parent {
    /// It runs.
    Runs(OwnedFd),
    /// It has ended.
    Ended,
    /// It is in another PID namespace, or the kernel cannot watch it.
    Unknown,
}

impl Parent {
    /// Finds the parent. To be called when this process starts.
    pub(super) fn find() -> Self {
        let Some(parent) = getppid() else { return Parent::Unknown };
        let Ok(watched) = pidfd_open(parent, PidfdFlags::empty()) else { return Parent::Unknown };
        // It may have ended before, and its ID may belong to another process.
        if getppid() == Some(parent) { Parent::Runs(watched) } else { Parent::Ended }
    }

    /// Returns when the parent has ended.
    pub(super) async fn wait_for_end(self) {
        let has_ended = match self {
            Parent::Runs(watched) => wait_for_exit(watched).await,
            Parent::Ended => true,
            Parent::Unknown => false,
        };
        if !has_ended {
            pending::<()>().await;
        }
    }
}

/// Waits until the process of a descriptor has ended, in a thread that nobody waits for. Returns whether it has.
async fn wait_for_exit(process: OwnedFd) -> bool {
    let (send, receive) = oneshot::channel();
    thread::spawn(move || {
        let polled = retry_on_intr(|| poll(&mut [PollFd::new(&process, PollFlags::IN)], None));
        let _ = send.send(polled.is_ok());
    });
    receive.await.unwrap_or(false)
}
