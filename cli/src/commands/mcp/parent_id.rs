//! The end of the process that started this one, on systems whose kernel has no descriptors for processes.

use std::future::pending;
use std::time::Duration;

use rustix::process::{Pid, getppid};

/// How often the parent is looked at.
const INTERVAL: Duration = Duration::from_secs(1);

/// The parent of this process. Another process may hold the other end of standard input when it is gone, so the end of that stream
/// does not tell.
#[derive(Debug)]
pub(super) struct Parent(Option<Pid>);

impl Parent {
    /// Finds the parent. To be called when this process starts.
    pub(super) fn find() -> Self {
        Parent(getppid())
    }

    /// Returns when the parent has ended: this process then has another one.
    pub(super) async fn wait_for_end(self) {
        // Without one, it is in another PID namespace.
        if self.0.is_none() {
            pending::<()>().await;
        }
        while getppid() == self.0 {
            tokio::time::sleep(INTERVAL).await;
        }
    }
}
