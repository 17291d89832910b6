//! The pipes of background processes, and the descriptors that they cost this program.

use std::collections::VecDeque;
use std::sync::{Mutex, OnceLock, PoisonError};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::net::unix::pipe::Receiver;
use tokio::task::AbortHandle;

use crate::weakness::{Weakness, Weaknesses};

/// The maximum number of descriptors to request. A higher limit would slow programs that close every possible
/// descriptor.
const DESCRIPTORS: u64 = 65_536;
/// The maximum number of pipes of exited programs that are kept open for one sandbox.
const PIPES: u64 = 256;

/// Raises this program's limit of open descriptors to the allowed maximum. Sandboxes have their own limit.
pub(crate) fn raise_descriptors() {
    static ONCE: OnceLock<()> = OnceLock::new();
    ONCE.get_or_init(|| {
        let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
        let wanted = maximum.map_or(DESCRIPTORS, |maximum| maximum.min(DESCRIPTORS));
        if current.is_some_and(|current| current < wanted) {
            // If this fails, fewer calls can run at once.
            let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum });
        }
    });
}

/// The pipes of exited programs whose write end is still open in the sandbox. One process can hold many of them,
/// received over a socket.
#[derive(Debug)]
pub(crate) struct Background {
    drains: Mutex<VecDeque<AbortHandle>>,
    most: usize,
}

impl Background {
    pub(crate) fn new(weak: &Weaknesses) -> Self {
        let limit = getrlimit(Resource::Nofile).current.unwrap_or(DESCRIPTORS);
        let most = usize::try_from((limit / 16).clamp(16, PIPES)).unwrap_or(usize::MAX);
        let most = if weak.has(&Weakness::Pipes) { usize::MAX } else { most };
        Background { drains: Mutex::default(), most }
    }

    /// Reads a pipe to its end, so that its writers do not block. If there are too many pipes, the oldest is closed.
    /// Call this on the engine.
    pub(crate) fn drain(&self, pipe: Receiver) {
        let mut drains = self.drains.lock().unwrap_or_else(PoisonError::into_inner);
        drains.retain(|drain| !drain.is_finished());
        while drains.len() >= self.most {
            let Some(first) = drains.pop_front() else { break };
            first.abort();
        }
        drains.push_back(tokio::spawn(drain_pipe(pipe)).abort_handle());
    }
}

async fn drain_pipe(pipe: Receiver) {
    let mut buffer = vec![0; 16 << 10];
    while pipe.readable().await.is_ok() {
        match pipe.try_read(&mut buffer) {
            Ok(0) => return,
            Err(error) if error.kind() != std::io::ErrorKind::WouldBlock => return,
            _ => {}
        }
    }
}
