//! Reads the output of a process until its streams are closed.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Weak};

use koze_guest::channel::Received;
use koze_guest::message::Answer;
use rustix::fs::OFlags;
use rustix::io::Errno;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::net::unix::pipe::Receiver;
use tokio::sync::oneshot;

use super::super::ready::watched;
use super::super::running::Running;
use super::entry::{Entry, Fate};
use crate::engine::engine;

/// The numbers of the streams in the recording.
pub(super) const STDOUT: u8 = 1;
pub(super) const STDERR: u8 = 2;

/// The size of one read, in bytes.
const PIECE: usize = 16 << 10;
/// The exit code of a killed program.
const KILLED: i32 = 137;

/// A stream of a process.
#[derive(Debug)]
pub(super) struct Source {
    stream: u8,
    descriptor: AsyncFd<Arc<OwnedFd>>,
}

impl Source {
    pub(super) fn new(stream: u8, descriptor: Arc<OwnedFd>) -> std::io::Result<Self> {
        let flags = rustix::fs::fcntl_getfl(&descriptor)?;
        rustix::fs::fcntl_setfl(&descriptor, flags | OFlags::NONBLOCK)?;
        let _engine = engine().map_err(std::io::Error::other)?.enter();
        Ok(Source { stream, descriptor: watched(descriptor, Interest::READABLE)? })
    }

    /// Waits until the stream may be readable.
    async fn ready(&self) {
        if let Ok(mut ready) = self.descriptor.readable().await {
            // Existing output is read next, and the kernel reports new output.
            ready.clear_ready();
        }
    }
}

/// Reads a stream as long as it is open in the sandbox.
pub(super) async fn follow(entry: Arc<Entry>, source: Source, running: Weak<Running>) {
    let mut demand = entry.demand.subscribe();
    let mut buffer = vec![0; PIECE];
    let mut settled = false;
    loop {
        demand.mark_unchanged();
        if entry.fate() != Fate::Known {
            break;
        }
        let room = entry.room().min(PIECE);
        if room == 0 {
            // The entry is held here, so the sender exists.
            let _ = demand.changed().await;
            continue;
        }
        let ended = entry.exit().is_some();
        match rustix::io::read(source.descriptor.get_ref(), &mut buffer[..room]) {
            Ok(0) => break,
            Ok(read) => {
                entry.push(source.stream, &buffer[..read]);
                // Yield to the other stream and to other sandboxes.
                tokio::task::yield_now().await;
            }
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => {
                if ended && !settled {
                    settled = true;
                    entry.settle();
                }
                tokio::select! {
                    () = source.ready() => {}
                    _ = demand.changed() => {}
                }
            }
            // The terminal is no longer open in the sandbox.
            Err(_) => break,
        }
    }
    if !settled {
        entry.settle();
    }
    entry.close();
    if entry.has_terminal {
        // Also drop the host's end of the terminal, which is freed with its last descriptor.
        drop(source);
        entry.input.lock().await.take();
        return;
    }
    if entry.fate() == Fate::Forgotten
        && let Some(running) = running.upgrade()
        && let Some(pipe) = Arc::into_inner(source.descriptor.into_inner())
        && let Ok(pipe) = Receiver::from_owned_fd(pipe)
    {
        // Background processes may go on writing, and a closed pipe would kill them.
        running.background.drain(pipe);
    }
}

/// Waits for the end of a process.
pub(super) async fn end(
    entry: Arc<Entry>,
    ended: oneshot::Receiver<Received<Answer>>,
    running: Weak<Running>,
    judgements: u64,
) {
    match ended.await.map(|received| received.message) {
        Ok(Answer::Ended(code)) => {
            let judged = running.upgrade().and_then(|running| running.judged_since(judgements));
            let note = judged.filter(|_| code == KILLED);
            entry.ended(code, note.map(|why| format!("all programs of this sandbox were killed: {why}")));
            if !entry.has_terminal {
                entry.input.lock().await.take();
            }
        }
        _ => entry.gone(),
    }
}
