//! A process, as the host keeps it.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use koze_guest::recording::Recording;
use koze_guest::roster::Member;
use tokio::sync::{Mutex as AsyncMutex, watch};

use super::input::Input;
use super::output::{STDERR, STDOUT};
use koze_core::error::{Code, Error, Result};
use koze_core::sandbox::process::{Chunk, Exit, ProcessId, ProcessInfo, ProcessOutput, Stream};

/// A process that runs, or has ended and is kept.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) id: ProcessId,
    program: String,
    /// The number that its end has for the guest.
    pub(super) ends: u64,
    buffer: usize,
    pub(super) has_terminal: bool,
    state: Mutex<State>,
    /// Tells readers: there is output, or it has ended.
    pub(super) news: watch::Sender<()>,
    /// Tells those who follow its streams: there is room, or it has ended.
    pub(super) demand: watch::Sender<()>,
    /// None once it is closed.
    pub(super) input: AsyncMutex<Option<Input>>,
}

#[derive(Debug)]
struct State {
    recording: Recording,
    /// How many streams may still have something that it wrote before it ended.
    unsettled: usize,
    /// How many streams something in the sandbox has open.
    open: usize,
    exit: Option<Exit>,
    /// Why it was killed, where that is not to be seen from its exit code.
    note: Option<String>,
    /// The cursor after all that it wrote, once that is known.
    settled: Option<u64>,
    terminal: Option<Arc<OwnedFd>>,
    fate: Fate,
}

/// Whether anybody can ask for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// Yes.
    Known,
    /// It had to make room for another one.
    Forgotten,
    /// Its sandbox has ended.
    Gone,
}

impl Entry {
    pub(super) fn new(
        id: ProcessId,
        program: String,
        ends: u64,
        terminal: Option<Arc<OwnedFd>>,
        (buffer, drop_oldest): (usize, bool),
        input: Input,
        streams: usize,
    ) -> Self {
        let has_terminal = terminal.is_some();
        let state = State {
            recording: Recording::new(buffer, drop_oldest),
            unsettled: streams,
            open: streams,
            exit: None,
            note: None,
            settled: None,
            terminal,
            fate: Fate::Known,
        };
        Entry {
            id,
            program,
            ends,
            buffer,
            has_terminal,
            state: Mutex::new(state),
            news: watch::Sender::new(()),
            demand: watch::Sender::new(()),
            input: AsyncMutex::new(Some(input)),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn info(&self) -> ProcessInfo {
        ProcessInfo {
            id: self.id.clone(),
            program: self.program.clone(),
            terminal: self.has_terminal,
            exit: self.exit(),
        }
    }

    /// How it ended, once it has.
    pub(super) fn exit(&self) -> Option<Exit> {
        self.state().exit
    }

    pub(super) fn fate(&self) -> Fate {
        self.state().fate
    }

    /// Whether nobody can ask for it any more.
    pub(super) fn check(&self) -> Result<()> {
        match self.fate() {
            Fate::Known => Ok(()),
            Fate::Forgotten | Fate::Gone => Err(not_found()),
        }
    }

    pub(super) fn terminal(&self) -> Option<Arc<OwnedFd>> {
        self.state().terminal.clone()
    }

    /// How much of its output can be taken now.
    pub(super) fn room(&self) -> usize {
        self.state().recording.room()
    }

    /// Takes output.
    pub(super) fn push(&self, stream: u8, bytes: &[u8]) {
        self.state().recording.push(stream, bytes);
        self.news.send_replace(());
    }

    /// What follows a cursor, if there is anything to say.
    pub(super) fn read(&self, cursor: u64, limit: usize) -> Result<ProcessOutput> {
        let mut state = self.state();
        let Some(piece) = state.recording.read(cursor, limit) else {
            let end = state.recording.end();
            let message = format!(
                "the cursor {cursor} lies beyond the output, which ends at {end}: use the one that the last read returned"
            );
            return Err(Error::new(Code::InvalidInput, message));
        };
        let exit = state.exit.filter(|_| state.settled.is_some_and(|settled| piece.next >= settled));
        drop(state);
        self.demand.send_replace(());
        let chunk = |(stream, bytes)| Chunk {
            stream: if stream == STDERR { Stream::Stderr } else { Stream::Stdout },
            bytes,
        };
        let chunks = piece.parts.into_iter().map(chunk).collect();
        Ok(ProcessOutput { chunks, next: piece.next, dropped: piece.dropped, exit })
    }

    /// One of its streams has nothing left of what it wrote before it ended.
    pub(super) fn settle(&self) {
        let mut state = self.state();
        state.unsettled -= 1;
        state.settle(self.has_terminal);
        drop(state);
        self.news.send_replace(());
    }

    /// It has ended, and perhaps was killed for a reason.
    pub(super) fn ended(&self, code: i32, note: Option<String>) {
        let mut state = self.state();
        state.exit = Some(Exit { code });
        state.note = note;
        state.settle(self.has_terminal);
        drop(state);
        self.tell();
    }

    /// It has ended with its sandbox.
    pub(super) fn gone(&self) {
        self.state().fate = Fate::Gone;
        self.tell();
    }

    /// Others need its room.
    pub(super) fn forget(&self) {
        self.state().fate = Fate::Forgotten;
        self.tell();
    }

    /// Nothing has one of its streams open any more.
    pub(super) fn close(&self) {
        let mut state = self.state();
        state.open -= 1;
        state.terminal = None;
    }

    fn tell(&self) {
        self.news.send_replace(());
        self.demand.send_replace(());
    }
}

impl State {
    fn settle(&mut self, terminal: bool) {
        if self.unsettled > 0 || self.exit.is_none() || self.settled.is_some() {
            return;
        }
        if let Some(note) = self.note.take() {
            let stream = if terminal { STDOUT } else { STDERR };
            self.recording.push(stream, format!("\nkoze: {note}\n").as_bytes());
        }
        self.settled = Some(self.recording.end());
    }
}

impl Member for Entry {
    fn held(&self) -> usize {
        let state = self.state();
        if state.exit.is_some() && state.open == 0 { state.recording.held() } else { self.buffer }
    }

    fn ended(&self) -> bool {
        self.exit().is_some()
    }
}

/// What an operation on a process gets that nobody knows any more.
pub(super) fn not_found() -> Error {
    let message =
        "the process does not exist: it ended with its sandbox, or others needed its room after it had ended";
    Error::new(Code::NotFound, message)
}
