//! A process of a sandbox: a program that keeps running after the call that started it.

use std::fmt;
use std::future::Future;
use std::time::Duration;

use super::{MaybeSend, MaybeSync};
use crate::detach::run_detached;
use crate::error::{Code, Error, Result};

/// The smallest and the largest buffer of a process, in bytes.
pub const BUFFER: std::ops::RangeInclusive<usize> = (4 << 10)..=(8 << 20);

/// A process. It is identified by its ID, and a clone is the same process.
///
/// It ends when the sandbox sleeps or is destroyed, and every operation then fails with [`Code::NotFound`]. A process that
/// has ended by itself is kept for later readers until others need its room: a sandbox keeps at most 64 of them, and 32 MiB
/// of output.
pub trait Process: Clone + MaybeSend + MaybeSync + 'static {
    /// Returns its ID.
    fn id(&self) -> &ProcessId;

    /// Writes to its standard input, or types on its terminal. Returns how many bytes were taken: fewer than all if it did
    /// not read them within `wait`.
    ///
    /// # Errors
    /// [`Code::InvalidInput`] if its standard input is closed, or if the process has ended.
    fn write_stdin(&self, bytes: Vec<u8>, wait: Duration) -> impl Future<Output = Result<usize>> + MaybeSend;

    /// Closes its standard input. On a terminal, types the end-of-file character. Succeeds if it is closed already.
    fn close_stdin(&self) -> impl Future<Output = Result<()>> + MaybeSend;

    /// Reads at most `limit` bytes of its output from a cursor on: 0 at first, then [`ProcessOutput::next`].
    ///
    /// Returns at once if there is output or if the process has ended, and after `wait` at the latest. Any number of readers
    /// can read. With [`Overflow::Block`], reading from a cursor acknowledges the output before it, which can then make room
    /// for new output.
    ///
    /// # Errors
    /// [`Code::InvalidInput`] if the cursor lies beyond the output, or the limit is 0.
    fn read(
        &self,
        cursor: u64,
        limit: usize,
        wait: Duration,
    ) -> impl Future<Output = Result<ProcessOutput>> + MaybeSend;

    /// Sends a signal to its process group. [`Signal::Kill`] kills it and all its descendants, including those in other
    /// groups and sessions. Does nothing if it has ended.
    fn signal(&self, signal: Signal) -> impl Future<Output = Result<()>> + MaybeSend;

    /// Sets the size of its terminal, and tells its foreground programs (`SIGWINCH`).
    ///
    /// # Errors
    /// [`Code::InvalidInput`] if it has no terminal, or if a number is 0.
    fn resize(&self, rows: u16, columns: u16) -> impl Future<Output = Result<()>> + MaybeSend;

    /// Waits until it has ended, for `timeout` at most. Does not wait for processes that it left in the background.
    fn wait(&self, timeout: Duration) -> impl Future<Output = Result<Option<Exit>>> + MaybeSend;

    /// Waits until it has ended. Kills it, as [`Signal::Kill`] does, if the timeout expires, or if the caller stops waiting
    /// earlier or is gone. Returns `None` after a timeout.
    fn supervise(&self, timeout: Duration) -> impl Future<Output = Result<Option<Exit>>> + MaybeSend {
        async move {
            let kill = SignalOnDrop::new(self, Signal::Kill);
            let exit = self.wait(timeout).await?;
            kill.release();
            if exit.is_none() {
                self.signal(Signal::Kill).await?;
            }
            Ok(exit)
        }
    }

    /// Reads as [`read`](Self::read) does. Sends a signal to the process if the caller stops waiting or is gone before there is
    /// an answer, or if reading fails.
    fn read_attending(
        &self,
        cursor: u64,
        limit: usize,
        wait: Duration,
        abandoned: Signal,
    ) -> impl Future<Output = Result<ProcessOutput>> + MaybeSend {
        async move {
            let signal = SignalOnDrop::new(self, abandoned);
            let output = self.read(cursor, limit, wait).await?;
            signal.release();
            Ok(output)
        }
    }
}

/// Sends a signal to a process when it is dropped.
#[doc(hidden)]
pub struct SignalOnDrop<P: Process>(Option<(P, Signal)>);

impl<P: Process> SignalOnDrop<P> {
    /// Begins to watch over a process.
    pub fn new(process: &P, signal: Signal) -> Self {
        SignalOnDrop(Some((process.clone(), signal)))
    }

    /// Drops it without a signal.
    pub fn release(mut self) {
        self.0 = None;
    }
}

impl<P: Process> Drop for SignalOnDrop<P> {
    fn drop(&mut self) {
        if let Some((process, signal)) = self.0.take() {
            run_detached(async move {
                // A process that cannot be reached has ended with its sandbox.
                let _ = process.signal(signal).await;
            });
        }
    }
}

/// The ID of a process. Providers choose IDs at random, and never reuse one.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ProcessId(String);

impl ProcessId {
    /// Validates an ID: 32 lowercase hexadecimal digits.
    ///
    /// # Errors
    /// [`Code::InvalidInput`] otherwise.
    pub fn new(id: impl Into<String>) -> Result<Self> {
        let id = id.into();
        let hexadecimal = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        if id.len() == 32 && id.bytes().all(hexadecimal) {
            return Ok(ProcessId(id));
        }
        let message =
            "a process ID must have 32 lowercase hexadecimal digits: use one that the sandbox returned";
        Err(Error::new(Code::InvalidInput, message))
    }

    /// Chooses an ID at random.
    pub fn random() -> Self {
        ProcessId(uuid::Uuid::new_v4().simple().to_string())
    }

    /// Returns the ID.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ProcessId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A program to start as a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// The program and its arguments. The program is searched for on the sandbox's `PATH`.
    pub argv: Vec<String>,
    /// The working directory, as an absolute path.
    pub working_dir: String,
    /// Environment variables in addition to the sandbox's own.
    pub env: Vec<(String, String)>,
    /// What its standard streams are.
    pub stdio: Stdio,
    /// How many bytes of output are kept for readers; see [`BUFFER`]. A part of each stream counts 16 bytes more than it has.
    pub buffer: usize,
    /// What happens when the buffer is full.
    pub overflow: Overflow,
    /// A text of at most [`MAX_LABEL`] bytes, which the list of processes returns.
    pub label: Option<String>,
    /// Whether its starter attends it at once, with [`Process::supervise`] or [`Process::read_attending`]. On a provider whose
    /// caller can be gone before it learns the ID, the process is killed if it does not.
    pub attended: bool,
}

/// The maximum length of a label, in bytes.
pub const MAX_LABEL: usize = 64;

impl Program {
    /// Creates a program with pipes, and with a buffer of 256 KiB that blocks the program when it is full.
    pub fn new(argv: Vec<String>, working_dir: impl Into<String>) -> Self {
        Program {
            argv,
            working_dir: working_dir.into(),
            env: Vec::new(),
            stdio: Stdio::Pipes,
            buffer: 256 << 10,
            overflow: Overflow::Block,
            label: None,
            attended: false,
        }
    }

    /// Validates the sizes.
    ///
    /// # Errors
    /// [`Code::InvalidInput`] if the buffer or the terminal is too small or too large, or if the label is too long.
    pub fn check(&self) -> Result<()> {
        if !BUFFER.contains(&self.buffer) {
            let (least, most) = (BUFFER.start(), BUFFER.end());
            let message = format!("a process's buffer must have {least} to {most} bytes");
            return Err(Error::new(Code::InvalidInput, message));
        }
        if self.label.as_ref().is_some_and(|label| label.len() > MAX_LABEL) {
            let message = format!("a process's label must have at most {MAX_LABEL} bytes");
            return Err(Error::new(Code::InvalidInput, message));
        }
        match self.stdio {
            Stdio::Pipes => Ok(()),
            Stdio::Terminal { rows, columns } => check_size(rows, columns),
        }
    }
}

/// Validates the size of a terminal.
///
/// # Errors
/// [`Code::InvalidInput`] if a number is 0.
pub fn check_size(rows: u16, columns: u16) -> Result<()> {
    if rows == 0 || columns == 0 {
        return Err(Error::new(Code::InvalidInput, "a terminal must have at least one row and one column"));
    }
    Ok(())
}

/// The standard streams of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stdio {
    /// Three pipes.
    Pipes,
    /// A pseudoterminal, which is also its controlling terminal. `TERM` is `xterm-256color` unless the program's environment
    /// sets it.
    Terminal {
        /// The number of rows.
        rows: u16,
        /// The number of columns.
        columns: u16,
    },
}

/// What happens when a process has written more than its buffer holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Overflow {
    /// The program waits until a reader has read enough. No output is lost unless a reader is further behind the foremost
    /// one than the buffer holds; that reader is told.
    Block,
    /// The oldest output is dropped. Readers that were too slow are told how much.
    DropOldest,
}

/// Output of a process.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ProcessOutput {
    /// The output, in the order in which it arrived.
    pub chunks: Vec<Chunk>,
    /// The cursor of the next read.
    pub next: u64,
    /// How many bytes before the first chunk were dropped since the given cursor.
    pub dropped: u64,
    /// How the process ended, if it has ended and all that it wrote was read. Programs that it left in the background can
    /// still write more.
    pub exit: Option<Exit>,
}

/// A part of one stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chunk {
    /// The stream.
    pub stream: Stream,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

/// A stream that a process writes. On a terminal everything is standard output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Exit {
    /// Its exit code; 128 + n after signal n.
    pub code: i32,
}

/// An entry of the list of processes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessInfo {
    /// Its ID.
    pub id: ProcessId,
    /// The program, as it was given.
    pub program: String,
    /// Whether it has a terminal.
    pub terminal: bool,
    /// How it ended, if it has ended.
    pub exit: Option<Exit>,
    /// The label that its program was started with.
    pub label: Option<String>,
}

/// A signal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Signal {
    /// `SIGHUP`.
    Hangup,
    /// `SIGINT`.
    Interrupt,
    /// `SIGQUIT`.
    Quit,
    /// `SIGKILL`.
    Kill,
    /// `SIGUSR1`.
    User1,
    /// `SIGUSR2`.
    User2,
    /// `SIGTERM`.
    Terminate,
    /// `SIGCONT`.
    Continue,
    /// `SIGSTOP`.
    Stop,
}

impl Signal {
    /// All signals that can be sent.
    pub const ALL: [Signal; 9] = [
        Signal::Hangup,
        Signal::Interrupt,
        Signal::Quit,
        Signal::Kill,
        Signal::User1,
        Signal::User2,
        Signal::Terminate,
        Signal::Continue,
        Signal::Stop,
    ];

    /// Returns the signal's number on Linux.
    pub fn number(self) -> u8 {
        match self {
            Signal::Hangup => 1,
            Signal::Interrupt => 2,
            Signal::Quit => 3,
            Signal::Kill => 9,
            Signal::User1 => 10,
            Signal::User2 => 12,
            Signal::Terminate => 15,
            Signal::Continue => 18,
            Signal::Stop => 19,
        }
    }

    /// Returns the signal with a number.
    pub fn from_number(number: u8) -> Option<Self> {
        Signal::ALL.into_iter().find(|signal| signal.number() == number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids() {
        let id = ProcessId::random();
        assert_eq!(ProcessId::new(id.as_str()).unwrap(), id);
        assert_ne!(ProcessId::random(), id);
        for bad in ["", "1", "../../../../../../../../../../etc", &"A".repeat(32), &"0".repeat(33)] {
            assert_eq!(ProcessId::new(bad).unwrap_err().code, Code::InvalidInput, "{bad}");
        }
    }

    #[test]
    fn sizes() {
        let mut program = Program::new(vec!["cat".into()], "/");
        program.check().unwrap();
        for (buffer, good) in
            [(0, false), (4095, false), (4096, true), (8 << 20, true), ((8 << 20) + 1, false)]
        {
            program.buffer = buffer;
            assert_eq!(program.check().is_ok(), good, "{buffer}");
        }
        program.buffer = 4096;
        for (length, good) in [(MAX_LABEL, true), (MAX_LABEL + 1, false)] {
            program.label = Some("a".repeat(length));
            assert_eq!(program.check().is_ok(), good, "{length}");
        }
        program.label = None;
        for (rows, columns) in [(0, 80), (24, 0)] {
            program.stdio = Stdio::Terminal { rows, columns };
            assert_eq!(program.check().unwrap_err().code, Code::InvalidInput);
        }
    }

    #[test]
    fn signals() {
        for signal in Signal::ALL {
            assert_eq!(Signal::from_number(signal.number()), Some(signal));
        }
        assert_eq!(Signal::from_number(0), None);
        assert_eq!(Signal::from_number(11), None);
    }
}
