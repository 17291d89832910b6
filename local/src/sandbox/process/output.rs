//! Reads the output of a process until its streams are closed.

use std::sync::{Arc, Weak};

use koze_guest::channel::Received;
use koze_guest::message::Answer;
use rustix::io::Errno;
use tokio::net::unix::pipe::Receiver;
use tokio::sync::oneshot;

use super::ends::Source;
use super::record::{Fate, Record};
use crate::sandbox::judgement::Before;
use crate::sandbox::running::Running;

/// The size of one read, in bytes.
const PIECE: usize = 16 << 10;

/// Reads a stream as long as it is open in the sandbox.
pub(super) async fn follow_stream(record: Arc<Record>, source: Source, running: Weak<Running>) {
    let mut demand = record.demand.subscribe();
    let mut buffer = vec![0; PIECE];
    let mut settled = false;
    loop {
        demand.mark_unchanged();
        if record.fate() != Fate::Known {
            break;
        }
        let room = record.room().min(PIECE);
        if room == 0 {
            // The record is held here, so the sender exists.
            let _ = demand.changed().await;
            continue;
        }
        let ended = record.exit().is_some();
        match rustix::io::read(source.descriptor.get_ref(), &mut buffer[..room]) {
            Ok(0) => break,
            Ok(read) => {
                record.push(source.stream, &buffer[..read]);
                // Yield to the other stream and to other sandboxes.
                tokio::task::yield_now().await;
            }
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => {
                if ended && !settled {
                    settled = true;
                    record.settle();
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
        record.settle();
    }
    record.close();
    if record.has_terminal {
        // Also drop the host's end of the terminal, which is freed with its last descriptor.
        drop(source);
        record.input.lock().await.take();
        return;
    }
    if record.fate() == Fate::Forgotten
        && let Some(running) = running.upgrade()
        && let Some(pipe) = Arc::into_inner(source.descriptor.into_inner())
        && let Ok(pipe) = Receiver::from_owned_fd(pipe)
    {
        // Background processes may go on writing, and a closed pipe would kill them.
        running.background.drain(pipe);
    }
}

/// Waits for the end of a process.
pub(super) async fn await_end(
    record: Arc<Record>,
    ended: oneshot::Receiver<Received<Answer>>,
    running: Weak<Running>,
    judged_before: Before,
) {
    match ended.await.map(|received| received.message) {
        Ok(Answer::Ended(code)) => {
            let note = running.upgrade().and_then(|running| running.judgements.reason(judged_before, code));
            record.ended(code, note);
            if !record.has_terminal {
                record.input.lock().await.take();
            }
        }
        _ => record.gone(),
    }
}
