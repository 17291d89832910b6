//! The standard input of a process.

use std::time::Duration;

use rustix::io::Errno;
use tokio::time::{Instant, timeout_at};

use super::record::Record;
use koze_core::error::{Code, Error, Result};

/// The terminal's end-of-file character, unless a program has changed it.
const END_OF_FILE: &[u8] = b"\x04";

/// Writes until the deadline. Returns how many bytes were taken.
pub(super) async fn write_input(record: &Record, bytes: &[u8], wait: Duration) -> Result<usize> {
    let until = Instant::now() + wait;
    let mut news = record.news.subscribe();
    // One writer at a time, so that concurrent writes do not mix.
    let Ok(input) = timeout_at(until, record.input.lock()).await else { return Ok(0) };
    let input = input.as_ref().ok_or_else(closed_error)?;
    let mut taken = 0;
    while taken < bytes.len() {
        news.mark_unchanged();
        record.check()?;
        if record.exit().is_some() {
            return if taken > 0 { Ok(taken) } else { Err(closed_error()) };
        }
        match rustix::io::write(input.0.get_ref(), &bytes[taken..]) {
            Ok(written) => taken += written,
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => {
                let room = async {
                    tokio::select! {
                        () = input.writable() => {}
                        _ = news.changed() => {}
                    }
                };
                if timeout_at(until, room).await.is_err() {
                    break;
                }
            }
            Err(_) if taken > 0 => break,
            Err(_) => return Err(closed_error()),
        }
    }
    Ok(taken)
}

/// Closes it. On a terminal, the end-of-file character follows earlier input.
pub(super) async fn close_input(record: &Record, wait: Duration) -> Result<()> {
    record.check()?;
    if !record.has_terminal {
        let closed = timeout_at(Instant::now() + wait, record.input.lock()).await;
        closed.map_err(|_| busy_error())?.take();
        return Ok(());
    }
    match write_input(record, END_OF_FILE, wait).await {
        Ok(1) => Ok(()),
        Ok(_) => Err(busy_error()),
        Err(error) if error.code == Code::InvalidInput => Ok(()),
        Err(error) => Err(error),
    }
}

fn closed_error() -> Error {
    Error::new(Code::InvalidInput, "the standard input of the process is closed, or the process has ended")
}

fn busy_error() -> Error {
    let message = "the process has not yet read what was written to its standard input: try again later";
    Error::new(Code::Unavailable, message)
}
