//! The host's record of a process.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use koze_guest::recording::Recording;
use koze_guest::roster::Member;
use tokio::sync::{Mutex as AsyncMutex, watch};

use super::ends::Input;
use koze_core::error::{Code, Error, Result};
use koze_core::sandbox::process::{Chunk, Exit, ProcessId, ProcessInfo, ProcessOutput, Stream};

/// The numbers of the streams in the recording.
pub(super) const STDOUT: u8 = 1;
pub(super) const STDERR: u8 = 2;

/// A process that runs, or that has ended and is kept.
#[derive(Debug)]
pub(super) struct Record {
    pub(super) id: ProcessId,
    program: String,
    label: Option<String>,
    /// The call number with which the guest reports its end.
    pub(super) ends: u64,
    buffer: usize,
    pub(super) has_terminal: bool,
    /// Whether its streams belong to the caller that started it, so that nothing is recorded.
    is_attached: bool,
    state: Mutex<Progress>,
    /// Notifies readers of output, or of its end.
    pub(super) news: watch::Sender<()>,
    /// Notifies the tasks that read its streams of room, or of its end.
    pub(super) demand: watch::Sender<()>,
    /// `None` once it is closed.
    pub(super) input: AsyncMutex<Option<Input>>,
}

#[derive(Debug)]
struct Progress {
    recording: Recording,
    /// The number of streams that may still contain output from before its end.
    unsettled: usize,
    /// The number of streams that are still open in the sandbox.
    open: usize,
    exit: Option<Exit>,
    /// Why it was killed, if its exit code does not tell.
    note: Option<String>,
    /// The cursor after all its output, once known.
    settled: Option<u64>,
    terminal: Option<Arc<OwnedFd>>,
    fate: Fate,
}

/// Whether it can be looked up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// It can.
    Known,
    /// It was removed to make room for another one.
    Forgotten,
    /// Its sandbox has ended.
    Gone,
}

impl Record {
    pub(super) fn new(
        id: ProcessId,
        (program, label): (String, Option<String>),
        ends: u64,
        terminal: Option<Arc<OwnedFd>>,
        (buffer, drop_oldest): (usize, bool),
        input: Input,
        streams: usize,
    ) -> Self {
        let has_terminal = terminal.is_some();
        let state = Progress {
            recording: Recording::new(buffer, drop_oldest),
            unsettled: streams,
            open: streams,
            exit: None,
            note: None,
            settled: None,
            terminal,
            fate: Fate::Known,
        };
        Record {
            id,
            program,
            label,
            ends,
            buffer,
            has_terminal,
            is_attached: false,
            state: Mutex::new(state),
            news: watch::Sender::new(()),
            demand: watch::Sender::new(()),
            input: AsyncMutex::new(Some(input)),
        }
    }

    /// Creates the record of a program whose streams belong to the caller that started it.
    pub(super) fn attached(
        id: ProcessId,
        (program, label): (String, Option<String>),
        ends: u64,
        has_terminal: bool,
    ) -> Self {
        let state = Progress {
            recording: Recording::new(0, false),
            unsettled: 0,
            open: 0,
            exit: None,
            note: None,
            settled: None,
            terminal: None,
            fate: Fate::Known,
        };
        Record {
            id,
            program,
            label,
            ends,
            buffer: 0,
            has_terminal,
            is_attached: true,
            state: Mutex::new(state),
            news: watch::Sender::new(()),
            demand: watch::Sender::new(()),
            input: AsyncMutex::new(None),
        }
    }

    /// Takes the reason why it was killed, if it was killed for one.
    pub(super) fn take_note(&self) -> Option<String> {
        self.state().note.take()
    }

    fn state(&self) -> MutexGuard<'_, Progress> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn info(&self) -> ProcessInfo {
        ProcessInfo {
            id: self.id.clone(),
            program: self.program.clone(),
            terminal: self.has_terminal,
            exit: self.exit(),
            label: self.label.clone(),
        }
    }

    pub(super) fn label(&self) -> Option<&str> {
        self.label.as_deref()
    }

    /// Returns how it ended, if it has.
    pub(super) fn exit(&self) -> Option<Exit> {
        self.state().exit
    }

    pub(super) fn fate(&self) -> Fate {
        self.state().fate
    }

    /// Returns whether it can no longer be looked up.
    pub(super) fn check(&self) -> Result<()> {
        match self.fate() {
            Fate::Known => Ok(()),
            Fate::Forgotten | Fate::Gone => Err(not_found()),
        }
    }

    pub(super) fn terminal(&self) -> Option<Arc<OwnedFd>> {
        self.state().terminal.clone()
    }

    /// Returns how much output can be added now.
    pub(super) fn room(&self) -> usize {
        self.state().recording.room()
    }

    /// Adds output.
    pub(super) fn push(&self, stream: u8, bytes: &[u8]) {
        self.state().recording.push(stream, bytes);
        self.news.send_replace(());
    }

    /// Returns what follows a cursor, if there is anything to report.
    pub(super) fn read(&self, cursor: u64, limit: usize) -> Result<ProcessOutput> {
        if self.is_attached {
            let message =
                "the output of this process goes to the `koze exec` that started it, and is not kept";
            return Err(Error::new(Code::Unsupported, message));
        }
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

    /// Marks one of its streams as drained of output from before its end.
    pub(super) fn settle(&self) {
        let mut state = self.state();
        state.unsettled -= 1;
        state.settle(self.has_terminal);
        drop(state);
        self.news.send_replace(());
    }

    /// Marks it as ended, with the reason if it was killed for one.
    pub(super) fn ended(&self, code: i32, note: Option<String>) {
        let mut state = self.state();
        state.exit = Some(Exit { code });
        state.note = note;
        if !self.is_attached {
            state.settle(self.has_terminal);
        }
        drop(state);
        self.tell();
    }

    /// Marks it as ended with its sandbox.
    pub(super) fn gone(&self) {
        self.state().fate = Fate::Gone;
        self.tell();
    }

    /// Removes it to make room for others.
    pub(super) fn forget(&self) {
        self.state().fate = Fate::Forgotten;
        self.tell();
    }

    /// Marks one of its streams as closed.
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

impl Progress {
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

impl Member for Record {
    fn held(&self) -> usize {
        let state = self.state();
        if state.exit.is_some() && state.open == 0 { state.recording.held() } else { self.buffer }
    }

    fn ended(&self) -> bool {
        self.exit().is_some()
    }
}

/// Returns the error for an unknown process.
pub(super) fn not_found() -> Error {
    let message = "the process does not exist: it ended with its sandbox, or it was discarded after its end to make room for others";
    Error::new(Code::NotFound, message)
}
