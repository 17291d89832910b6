//! The thread that reads what processes write.

use std::io;
use std::os::fd::AsFd;
use std::sync::{Arc, Mutex};
use std::thread;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::super::wakeup::Wakeup;
use super::entry::Entry;
use super::lock;
use crate::roster::Roster;

/// How much is read at once.
const PIECE: usize = 64 << 10;
/// The stack of the thread.
const STACK: usize = 128 << 10;

/// The thread. Cloned, it is the same.
#[derive(Debug, Clone)]
pub(super) struct Pump(Arc<Wakeup>);

impl Pump {
    pub(super) fn start(roster: Arc<Mutex<Roster<Entry>>>) -> io::Result<Self> {
        let wakeup = Arc::new(Wakeup::new()?);
        let pump = Pump(Arc::clone(&wakeup));
        thread::Builder::new().name("pump".into()).stack_size(STACK).spawn(move || run(&roster, &wakeup))?;
        Ok(pump)
    }

    /// Has it look again: something was started, has ended, or has room.
    pub(super) fn wakeup(&self) -> Arc<Wakeup> {
        Arc::clone(&self.0)
    }
}

fn run(roster: &Mutex<Roster<Entry>>, wakeup: &Wakeup) {
    let mut buffer = vec![0; PIECE];
    loop {
        wakeup.reset();
        let all: Vec<_> = lock(roster).iter().map(|(_, entry)| Arc::clone(entry)).collect();
        let (mut streams, mut at_once) = (Vec::new(), false);
        for entry in &all {
            entry.notice();
            let (wanted, unsettled) = entry.wanted();
            // What is in its pipes is read to the end, where nothing may be left to be ready for.
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
            // Held no longer: one that is forgotten goes to somebody else.
            drop(stream);
            if ready || unsettled {
                entry.pull(index, &mut buffer);
            }
        }
    }
}
