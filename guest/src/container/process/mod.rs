//! Processes: programs that keep running after the call and the connection that started them. One thread reads their output
//! into bounded buffers; each call that waits for output waits on its own thread.

mod entry;
mod pump;

use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use std::time::{Duration, Instant};

use koze_protocol::operation::framed::WriteProcess;
use koze_protocol::operation::{
    Ended, MAX_LABEL, ProcessInfo, ReadProcess, ResizeProcess, SignalProcess, Start, Started, Taken,
    WaitProcess,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};

use self::entry::{Entry, Source, lock, not_found};
use self::pump::Pump;
use super::budget::Held;
use super::call::{Call, End};
use super::drain::Drain;
use super::environment::Environment;
use super::frame::PIECE;
use super::programs::Programs;
use super::request::{Done, Output};
use super::wakeup::Wakeup;
use crate::message::{Code, Fault};
use crate::process::Streams;
use crate::roster::Roster;
use crate::terminal;

/// How often a waiting write checks whether it is its turn.
const TURN: Duration = Duration::from_millis(20);
/// How long closing standard input waits for earlier writes.
const TIMEOUT: Duration = Duration::from_secs(5);
/// The end-of-file character of a terminal, unless a program has changed it.
const END_OF_FILE: &[u8] = b"\x04";
/// The type of the terminal, for programs.
const TERM: (&str, &str) = ("TERM", "xterm-256color");

/// All processes of the sandbox. A clone shares them.
#[derive(Debug, Clone)]
pub(super) struct Processes {
    roster: Arc<Mutex<Roster<Entry>>>,
    pump: Pump,
}

impl Processes {
    pub(super) fn new() -> std::io::Result<Self> {
        let roster = Arc::default();
        Ok(Processes { pump: Pump::start(Arc::clone(&roster))?, roster })
    }

    /// Starts a process.
    pub(super) fn start(
        &self,
        programs: &Programs,
        environment: &Environment,
        drain: &Drain,
        what: Start,
        held: Held,
    ) -> Result<Done, Fault> {
        let Start { argv, working_dir, env, terminal, buffer, drop_oldest, label, .. } = what;
        let buffer = usize::try_from(buffer).unwrap_or(usize::MAX);
        if !crate::roster::BUFFER.contains(&buffer) {
            return Err(Fault::new(Code::InvalidInput, "the buffer of a process is too small or too large"));
        }
        if label.as_ref().is_some_and(|label| label.len() > MAX_LABEL) {
            return Err(Fault::new(Code::InvalidInput, "the label of a process is too long"));
        }
        if let Some(size) = &terminal {
            check_size(size.rows, size.columns)?;
        }
        // The lock is held until the end, because two concurrent starts could take the same space.
        let mut roster = lock(&self.roster);
        // Background programs of forgotten processes may still write, and a closed pipe would kill them.
        roster.admit(buffer)?.iter().flat_map(|entry| entry.forget()).for_each(|pipe| drain.add(pipe));
        let env = terminal.iter().map(|_| (TERM.0.to_owned(), TERM.1.to_owned())).chain(env).collect();
        let env = environment.with(env);
        let (sources, input, streams) = match &terminal {
            None => create_pipes().map_err(no_stream)?,
            Some(size) => {
                let [outside, inside] = terminal::open_terminal(size.rows, size.columns)?;
                let again = || inside.try_clone().map_err(no_stream);
                let inside = vec![again()?, again()?, inside];
                let outside = Arc::new(outside);
                (vec![Source::new(1, Arc::clone(&outside))], outside, Streams::all(inside, true)?)
            }
        };
        let running = programs.start(&argv, &working_dir, &env, streams, self.pump.wakeup())?;
        drop(held);
        let program = argv.into_iter().next().unwrap_or_default();
        let id = create_id().map_err(no_stream)?;
        let entry =
            Entry::new((program, label), terminal.is_some(), (buffer, drop_oldest), running, sources, input);
        roster.insert(id.clone(), Arc::new(entry));
        drop(roster);
        self.pump.wakeup().notify();
        Ok(Done::Started(Started { id }))
    }

    /// Describes a process.
    pub(super) fn info(&self, id: &str) -> Result<Done, Fault> {
        Ok(Done::Process(self.get(id)?.info(id)))
    }

    /// Lists all processes, the oldest first.
    pub(super) fn list(&self) -> Vec<ProcessInfo> {
        lock(&self.roster).iter().map(|(id, entry)| entry.info(id)).collect()
    }

    fn get(&self, id: &str) -> Result<Arc<Entry>, Fault> {
        lock(&self.roster).get(id).cloned().ok_or_else(not_found)
    }

    /// Sends output after a cursor on stream 1, once there is some.
    pub(super) fn read(&self, programs: &Programs, call: &Call, what: &ReadProcess) -> Result<Done, End> {
        let done = self.read_once(call, what);
        self.abandon(programs, &done, &what.id, what.abandoned_signal);
        done
    }

    fn read_once(&self, call: &Call, what: &ReadProcess) -> Result<Done, End> {
        let limit = usize::try_from(what.limit).unwrap_or(usize::MAX).min(*crate::roster::BUFFER.end());
        if limit == 0 {
            return Err(Fault::new(Code::InvalidInput, "a read must have a limit of at least 1 byte").into());
        }
        let entry = self.get(&what.id)?;
        let (piece, exit) = wait_for_answer(call, &entry, what.wait_ms.into(), |late| {
            let (piece, exit, made_room) = entry.read(what.cursor, limit)?;
            if made_room {
                self.pump.wakeup().notify();
            }
            let something = late || piece.next != what.cursor || exit.is_some();
            Ok(something.then_some((piece, exit)))
        })?;
        let mut chunks = Vec::with_capacity(piece.parts.len());
        for (stream, bytes) in piece.parts {
            call.send(1, &bytes)?;
            chunks.push((stream, bytes.len() as u64));
        }
        call.end(1)?;
        Ok(Done::Output(Output { next: piece.next, dropped: piece.dropped, chunks, exit }))
    }

    /// Waits until a process has ended.
    pub(super) fn wait(&self, programs: &Programs, call: &Call, what: &WaitProcess) -> Result<Done, End> {
        let entry = self.get(&what.id)?;
        let exit = wait_for_answer(call, &entry, what.timeout_ms.into(), |late| {
            let exit = entry.exit();
            Ok((late || exit.is_some()).then_some(exit))
        });
        let done = exit.map(|exit| Done::Exit(Ended { exit }));
        self.abandon(programs, &done, &what.id, what.abandoned_signal);
        done
    }

    /// Sends the signal of a call whose caller no longer waits.
    fn abandon(&self, programs: &Programs, done: &Result<Done, End>, id: &str, signal: Option<u8>) {
        if let (Err(End::Stopped), Some(signal)) = (done, signal) {
            // If the process does not exist any more, no signal is needed.
            let _ = self.signal(programs, &SignalProcess { id: id.to_owned(), signal });
        }
    }

    /// Writes the bytes of stream 0 until its end, or until the time is up.
    pub(super) fn write(&self, call: &Call, what: &WriteProcess) -> Result<Done, End> {
        let entry = self.get(&what.id)?;
        let until = Instant::now().checked_add(Duration::from_millis(what.wait_ms.into()));
        let Some(input) = take_turn(&entry, until, || call.streams.stopped())? else {
            return if call.streams.stopped() {
                Err(End::Stopped)
            } else {
                Ok(Done::Taken(Taken { taken: 0 }))
            };
        };
        let descriptor = input.as_ref().ok_or_else(closed_input)?;
        let wakeup = create_wakeup(call, &entry)?;
        let (mut taken, mut buffer) = (0, vec![0; PIECE]);
        loop {
            let length = call.take(&mut buffer)?;
            if length == 0 {
                return Ok(Done::Taken(Taken { taken }));
            }
            let written = write_input(call, &entry, descriptor, &buffer[..length], until, &wakeup)?;
            taken += written as u64;
            if written < length {
                let ended = taken == 0 && entry.exit().is_some();
                return if ended { Err(closed_input().into()) } else { Ok(Done::Taken(Taken { taken })) };
            }
        }
    }

    /// Closes standard input. A terminal gets the end-of-file character after all earlier input.
    pub(super) fn close(&self, call: &Call, id: &str) -> Result<Done, End> {
        let entry = self.get(id)?;
        let busy = || {
            Fault::new(
                Code::Unavailable,
                "the process has not yet read what was written to its standard input",
            )
        };
        let until = Instant::now().checked_add(TIMEOUT);
        let mut input = take_turn(&entry, until, || call.streams.stopped())?.ok_or_else(busy)?;
        if !entry.terminal {
            input.take();
            return Ok(Done::Nothing {});
        }
        let Some(descriptor) = input.as_ref() else { return Ok(Done::Nothing {}) };
        let wakeup = create_wakeup(call, &entry)?;
        match write_input(call, &entry, descriptor, END_OF_FILE, until, &wakeup) {
            Ok(0) if entry.exit().is_none() => Err(busy().into()),
            Ok(_) => Ok(Done::Nothing {}),
            Err(End::Fault(fault)) if fault.why == Code::InvalidInput => Ok(Done::Nothing {}),
            Err(end) => Err(end),
        }
    }

    pub(super) fn signal(&self, programs: &Programs, what: &SignalProcess) -> Result<Done, Fault> {
        let entry = self.get(&what.id)?;
        programs.signal(&entry.running, what.signal.into())?;
        Ok(Done::Nothing {})
    }

    pub(super) fn resize(&self, what: &ResizeProcess) -> Result<Done, Fault> {
        check_size(what.rows, what.columns)?;
        let entry = self.get(&what.id)?;
        if !entry.terminal {
            let text = "the process has no terminal: start it with one to give it a size";
            return Err(Fault::new(Code::InvalidInput, text));
        }
        // If no program has the terminal open any more, its size does not matter.
        if let Some(outside) = entry.outside() {
            terminal::resize_terminal(&outside, what.rows, what.columns).map_err(no_stream)?;
        }
        Ok(Done::Nothing {})
    }
}

/// Calls `ask` whenever the process has output or has ended, until it returns an answer. Calls it with `true` when the time is up.
fn wait_for_answer<T>(
    call: &Call,
    entry: &Entry,
    wait_ms: u64,
    ask: impl Fn(bool) -> Result<Option<T>, Fault>,
) -> Result<T, End> {
    if let Some(answer) = ask(wait_ms == 0)? {
        return Ok(answer);
    }
    let until = Instant::now().checked_add(Duration::from_millis(wait_ms));
    let wakeup = create_wakeup(call, entry)?;
    loop {
        wakeup.reset();
        if call.streams.stopped() {
            return Err(End::Stopped);
        }
        entry.check()?;
        if let Some(answer) = ask(until.is_some_and(|until| Instant::now() >= until))? {
            return Ok(answer);
        }
        poll_until(&mut [PollFd::new(&*wakeup, PollFlags::IN)], until);
    }
}

/// Returns a wakeup that is notified when a process has output or has ended, and when the call is canceled.
fn create_wakeup(call: &Call, entry: &Entry) -> Result<Arc<Wakeup>, Fault> {
    let wakeup = Arc::new(Wakeup::new().map_err(|error| {
        Fault::new(Code::Unavailable, format!("the guest has no file descriptor left: {error}"))
    })?);
    entry.tell(&wakeup);
    call.streams.notify_when_stopped(&wakeup);
    Ok(wakeup)
}

/// Takes the turn to write, so that concurrent writes are not mixed. Returns `None` if the time is up or the call is canceled.
fn take_turn(
    entry: &Entry,
    until: Option<Instant>,
    stopped: impl Fn() -> bool,
) -> Result<Option<MutexGuard<'_, Option<Arc<OwnedFd>>>>, Fault> {
    loop {
        entry.check()?;
        match entry.input.try_lock() {
            Ok(input) => return Ok(Some(input)),
            Err(TryLockError::Poisoned(input)) => return Ok(Some(input.into_inner())),
            Err(TryLockError::WouldBlock) => {}
        }
        if stopped() || until.is_some_and(|until| Instant::now() >= until) {
            return Ok(None);
        }
        std::thread::sleep(TURN);
    }
}

/// Writes until the time is up or the process has ended. Returns the number of bytes written.
fn write_input(
    call: &Call,
    entry: &Entry,
    descriptor: &Arc<OwnedFd>,
    bytes: &[u8],
    until: Option<Instant>,
    wakeup: &Wakeup,
) -> Result<usize, End> {
    let mut taken = 0;
    while taken < bytes.len() {
        wakeup.reset();
        if call.streams.stopped() {
            return Err(End::Stopped);
        }
        entry.check()?;
        if entry.exit().is_some() {
            return Ok(taken);
        }
        match rustix::io::write(descriptor, &bytes[taken..]) {
            Ok(written) => taken += written,
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => {
                if until.is_some_and(|until| Instant::now() >= until) {
                    return Ok(taken);
                }
                let mut ready = [
                    PollFd::from_borrowed_fd(descriptor.as_fd(), PollFlags::OUT),
                    PollFd::from_borrowed_fd(wakeup.as_fd(), PollFlags::IN),
                ];
                poll_until(&mut ready, until);
            }
            Err(_) if taken > 0 => return Ok(taken),
            Err(_) => return Err(closed_input().into()),
        }
    }
    Ok(taken)
}

fn poll_until(ready: &mut [PollFd<'_>], until: Option<Instant>) {
    let left = until.map(|until| until.saturating_duration_since(Instant::now()));
    // A time that is too long for the kernel means no timeout. The extra millisecond ensures that the time is up afterward.
    let timeout = left.and_then(|left| Timespec::try_from(left + Duration::from_millis(1)).ok());
    let _ = poll(ready, timeout.as_ref());
}

/// Creates the pipes of a process. Returns the guest's ends, and those of the process.
fn create_pipes() -> rustix::io::Result<(Vec<Source>, Arc<OwnedFd>, Streams)> {
    let (stdin, input) = pipe_with(PipeFlags::CLOEXEC)?;
    let (out, stdout) = pipe_with(PipeFlags::CLOEXEC)?;
    let (err, stderr) = pipe_with(PipeFlags::CLOEXEC)?;
    for ours in [&input, &out, &err] {
        rustix::io::ioctl_fionbio(ours, true)?;
    }
    let streams = Streams::all(vec![stdin, stdout, stderr], false).map_err(|_| Errno::INVAL)?;
    Ok((vec![Source::new(1, Arc::new(out)), Source::new(2, Arc::new(err))], Arc::new(input), streams))
}

/// Returns a random ID, which cannot be guessed and is never used twice.
fn create_id() -> rustix::io::Result<String> {
    let mut bytes = [0; 16];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().concat())
}

fn check_size(rows: u16, columns: u16) -> Result<(), Fault> {
    if rows == 0 || columns == 0 {
        return Err(Fault::new(Code::InvalidInput, "a terminal must have at least one row and one column"));
    }
    Ok(())
}

fn closed_input() -> Fault {
    Fault::new(Code::InvalidInput, "the standard input of the process is closed, or the process has ended")
}

fn no_stream(error: impl std::fmt::Display) -> Fault {
    Fault::new(Code::Unavailable, format!("no stream can be created for the process: {error}"))
}
