//! What a process writes, until nothing has its streams open any more.

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

/// The streams, as they are numbered in what is kept.
pub(super) const STDOUT: u8 = 1;
pub(super) const STDERR: u8 = 2;

/// How much is read at once.
const PIECE: usize = 16 << 10;
/// The exit code of a program that was killed.
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

    /// Waits until there may be something to read.
    async fn ready(&self) {
        if let Ok(mut ready) = self.descriptor.readable().await {
            // What was there before is asked for next, and the kernel says when there is more.
            ready.clear_ready();
        }
    }
}

/// Takes what a stream has, for as long as anything in the sandbox has it open.
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
            // The entry is held here: the sender lives.
            let _ = demand.changed().await;
            continue;
        }
        let ended = entry.exit().is_some();
        match rustix::io::read(source.descriptor.get_ref(), &mut buffer[..room]) {
            Ok(0) => break,
            Ok(read) => {
                entry.push(source.stream, &buffer[..read]);
                // The other stream, and other sandboxes, have their turn.
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
            // A terminal that nothing has open any more.
            Err(_) => break,
        }
    }
    if !settled {
        entry.settle();
    }
    entry.close();
    if entry.has_terminal {
        // What looks at the terminal, too: it goes away with the last descriptor.
        drop(source);
        entry.input.lock().await.take();
        return;
    }
    if entry.fate() == Fate::Forgotten
        && let Some(running) = running.upgrade()
        && let Some(pipe) = Arc::into_inner(source.descriptor.into_inner())
        && let Ok(pipe) = Receiver::from_owned_fd(pipe)
    {
        // What is left in the background goes on writing, and would die of a closed pipe.
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
