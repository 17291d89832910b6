//! The record of a process.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use koze_protocol::operation::ProcessInfo;
use rustix::io::Errno;

use super::super::programs::Running;
use super::super::wakeup::Wakeup;
use crate::message::{Code, Fault};
use crate::recording::{Piece, Recording};
use crate::roster::Member;

/// A process that is running, or has ended and is kept.
#[derive(Debug)]
pub(super) struct Entry {
    program: String,
    label: Option<String>,
    pub(super) terminal: bool,
    buffer: usize,
    pub(super) running: Arc<Running>,
    state: Mutex<State>,
    /// `None` once it is closed.
    pub(super) input: Mutex<Option<Arc<OwnedFd>>>,
}

#[derive(Debug)]
struct State {
    recording: Recording,
    sources: Vec<Source>,
    exit: Option<i32>,
    /// The cursor after the last output, once the process has ended and all of its output was read.
    settled: Option<u64>,
    forgotten: bool,
    /// The calls that wait for output or for the end.
    waiting: Vec<Weak<Wakeup>>,
}

/// An output stream of a process.
#[derive(Debug)]
pub(super) struct Source {
    stream: u8,
    /// `None` once no program has the stream open any more.
    descriptor: Option<Arc<OwnedFd>>,
    /// Whether everything that was written before the end of the process was read.
    settled: bool,
}

impl Source {
    pub(super) fn new(stream: u8, descriptor: Arc<OwnedFd>) -> Self {
        Source { stream, descriptor: Some(descriptor), settled: false }
    }
}

impl Entry {
    pub(super) fn new(
        (program, label): (String, Option<String>),
        terminal: bool,
        (buffer, drop_oldest): (usize, bool),
        running: Arc<Running>,
        sources: Vec<Source>,
        input: Arc<OwnedFd>,
    ) -> Self {
        let recording = Recording::new(buffer, drop_oldest);
        let (exit, settled, waiting) = (None, None, Vec::new());
        let state = State { recording, sources, exit, settled, forgotten: false, waiting };
        let (state, input) = (Mutex::new(state), Mutex::new(Some(input)));
        Entry { program, label, terminal, buffer, running, state, input }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    pub(super) fn info(&self, id: &str) -> ProcessInfo {
        let (program, label, terminal) = (self.program.clone(), self.label.clone(), self.terminal);
        ProcessInfo { id: id.to_owned(), program, terminal, exit: self.exit(), label }
    }

    pub(super) fn exit(&self) -> Option<i32> {
        self.state().exit
    }

    /// Fails if the process was forgotten.
    pub(super) fn check(&self) -> Result<(), Fault> {
        if self.state().forgotten { Err(not_found()) } else { Ok(()) }
    }

    /// Returns the guest's end of its terminal.
    pub(super) fn outside(&self) -> Option<Arc<OwnedFd>> {
        self.state().sources.first().and_then(|source| source.descriptor.clone())
    }

    /// Returns the output after a cursor, the exit code if all output was read, and whether the read has made room in a full
    /// buffer: output before the cursor counts as read.
    pub(super) fn read(&self, cursor: u64, limit: usize) -> Result<(Piece, Option<i32>, bool), Fault> {
        let mut state = self.state();
        let full = state.recording.room() == 0;
        let Some(piece) = state.recording.read(cursor, limit) else {
            let end = state.recording.end();
            let text = format!(
                "the cursor {cursor} lies beyond the output, which ends at {end}: use the one that the last read returned"
            );
            return Err(Fault::new(Code::InvalidInput, text));
        };
        let exit = state.exit.filter(|_| state.settled.is_some_and(|settled| piece.next >= settled));
        Ok((piece, exit, full && state.recording.room() > 0))
    }

    /// Notifies the wakeup when there is output, or when the process has ended.
    pub(super) fn tell(&self, wakeup: &Arc<Wakeup>) {
        let mut state = self.state();
        state.waiting.retain(|other| other.strong_count() > 0);
        state.waiting.push(Arc::downgrade(wakeup));
    }

    /// Forgets the process, because others need its space. Returns its open streams, which must still be drained.
    pub(super) fn forget(&self) -> Vec<OwnedFd> {
        let mut state = self.state();
        state.forgotten = true;
        state.notify();
        let sources = std::mem::take(&mut state.sources);
        drop(state);
        if self.terminal {
            return Vec::new();
        }
        // Duplicated, because the reading thread may hold a stream at this moment.
        sources.iter().filter_map(|source| source.descriptor.as_ref()?.try_clone().ok()).collect()
    }

    /// Records the end of the process, if it has ended.
    pub(super) fn notice(&self) {
        let Some(code) = self.running.code.get() else { return };
        let mut state = self.state();
        if state.exit.is_none() {
            state.exit = Some(*code);
            state.settle();
            state.notify();
        }
        drop(state);
        if !self.terminal
            && let Ok(mut input) = self.input.try_lock()
        {
            input.take();
        }
    }

    /// Returns the streams to read, and whether to read them without waiting, because the process has ended.
    pub(super) fn wanted(&self) -> (Vec<(usize, Arc<OwnedFd>)>, bool) {
        let state = self.state();
        if state.recording.room() == 0 {
            return (Vec::new(), false);
        }
        let open = |(index, source): (usize, &Source)| Some((index, source.descriptor.clone()?));
        let unsettled = state.exit.is_some() && state.sources.iter().any(|source| !source.settled);
        (state.sources.iter().enumerate().filter_map(open).collect(), unsettled)
    }

    /// Reads a piece of a stream.
    pub(super) fn pull(&self, index: usize, buffer: &mut [u8]) {
        let mut state = self.state();
        let State { recording, sources, exit, .. } = &mut *state;
        let Some(source) = sources.get_mut(index) else { return };
        let Some(descriptor) = &source.descriptor else { return };
        let room = recording.room().min(buffer.len());
        if room == 0 {
            return;
        }
        match rustix::io::read(descriptor, &mut buffer[..room]) {
            Ok(read @ 1..) => recording.push(source.stream, &buffer[..read]),
            Err(Errno::INTR) => return,
            Err(Errno::AGAIN) => source.settled |= exit.is_some(),
            // Reading a terminal fails once no program has it open.
            Ok(0) | Err(_) => {
                source.descriptor = None;
                source.settled = true;
            }
        }
        let hung_up = self.terminal && source.descriptor.is_none();
        state.settle();
        state.notify();
        drop(state);
        if hung_up && let Ok(mut input) = self.input.try_lock() {
            input.take();
        }
    }
}

impl State {
    fn settle(&mut self) {
        if self.exit.is_some() && self.settled.is_none() && self.sources.iter().all(|source| source.settled) {
            self.settled = Some(self.recording.end());
        }
    }

    fn notify(&self) {
        self.waiting.iter().filter_map(Weak::upgrade).for_each(|wakeup| wakeup.notify());
    }
}

impl Member for Entry {
    fn held(&self) -> usize {
        let state = self.state();
        let closed = state.sources.iter().all(|source| source.descriptor.is_none());
        if state.exit.is_some() && closed { state.recording.held() } else { self.buffer }
    }

    fn ended(&self) -> bool {
        self.exit().is_some()
    }
}

pub(super) fn not_found() -> Fault {
    let text = "the process does not exist: it ended with its sandbox, or it was discarded after its end to make room for others";
    Fault::new(Code::NotFound, text)
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
