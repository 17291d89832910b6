//! The thread that reads the output of processes.

use std::io;
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex};
use std::thread;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::super::wakeup::Wakeup;
use super::entry::{Entry, lock};
use crate::roster::Roster;

/// The maximum number of bytes of one read.
const PIECE: usize = 64 << 10;
/// The stack of the thread.
const STACK: usize = 128 << 10;

/// A handle to the thread.
#[derive(Debug, Clone)]
pub(super) struct Pump(Arc<Wakeup>);

impl Pump {
    pub(super) fn start(roster: Arc<Mutex<Roster<Entry>>>) -> io::Result<Self> {
        let wakeup = Arc::new(Wakeup::new()?);
        let pump = Pump(Arc::clone(&wakeup));
        thread::Builder::new()
            .name("pump".into())
            .stack_size(STACK)
            .spawn(move || pump_output(&roster, &wakeup))?;
        Ok(pump)
    }

    /// Returns the wakeup that makes the thread look again: after a start, an end, or a read that made room.
    pub(super) fn wakeup(&self) -> Arc<Wakeup> {
        Arc::clone(&self.0)
    }
}

fn pump_output(roster: &Mutex<Roster<Entry>>, wakeup: &Wakeup) {
    let mut buffer = vec![0; PIECE];
    loop {
        wakeup.reset();
        let all: Vec<_> = lock(roster).iter().map(|(_, entry)| Arc::clone(entry)).collect();
        let (mut streams, mut at_once) = (Vec::new(), false);
        for entry in &all {
            entry.notice();
            let (wanted, unsettled) = entry.wanted();
            // After the end of a process, its pipes are read until they are empty, without waiting.
            at_once |= unsettled;
            streams.extend(wanted.into_iter().map(|(index, stream)| (entry, index, stream, unsettled)));
        }
        let mut ready: Vec<_> = [wakeup.as_fd()]
            .into_iter()
            .chain(streams.iter().map(|(_, _, stream, _)| stream.as_fd()))
            .map(|stream| PollFd::from_borrowed_fd(stream, PollFlags::IN))
            .collect();
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        let _ = poll(&mut ready, at_once.then_some(&now));
        let ready: Vec<_> = ready[1..].iter().map(|stream| !stream.revents().is_empty()).collect();
        for ((entry, index, stream, unsettled), ready) in streams.into_iter().zip(ready) {
            // Release the stream before reading, because a forgotten process hands its streams over.
            drop(stream);
            if ready || unsettled {
                entry.pull(index, &mut buffer);
            }
        }
    }
}
