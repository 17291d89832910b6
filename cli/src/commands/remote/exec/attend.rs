//! Passes input, output and signals between this command and a process of a server until the process ends.

use std::io::{self, ErrorKind, Read as _};
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread;
use std::time::Duration;

use koze_client::Session;
use koze_core::http::ProcessEvent;
use koze_core::sandbox::process::{Signal, Stream};
use koze_core::{Code, Error, Result};

use crate::commands::programs::{KILLED, KOZE_FAILED, NO_READER, SIGNALED, TIMED_OUT};
use crate::commands::remote::processes::to_error;
use crate::commands::show;

/// How many events wait to be printed.
const AHEAD: usize = 16;
/// How much input is sent at once, in bytes.
const PIECE: usize = 64 << 10;

/// A process that this command attends. It is killed if this command ends earlier, unless that is killed itself.
#[derive(Debug, Clone)]
pub(super) struct Attended {
    pub(super) session: Session,
    pub(super) sandbox: String,
    /// The ID of the process.
    pub(super) id: String,
    /// Whether it gets the input of this command.
    pub(super) is_interactive: bool,
    pub(super) has_terminal: bool,
    pub(super) timeout: Option<Duration>,
}

/// What happens while a process is attended.
enum Happened {
    /// The process reports something.
    Event(Result<ProcessEvent>),
    /// It reports nothing more.
    Finished,
    /// This command gets a signal.
    Signal(Signal),
    /// The window has changed its size.
    #[cfg(unix)]
    Resized,
    /// The time of the process is up.
    TimedOut,
}

/// Receives what happens. Signals are received before the process is started, so that none ends this command without it.
pub(super) struct Watch {
    sender: SyncSender<Happened>,
    receiver: Receiver<Happened>,
}

impl Attended {
    /// Sends a signal to the process.
    fn signal(&self, signal: Signal) -> Result<()> {
        self.session.signal_process(&self.sandbox, &self.id, signal)
    }

    /// Kills the process. One that cannot be reached has ended.
    fn kill(&self) {
        let _ = self.signal(Signal::Kill);
    }
}

/// Attends a process until it ends. Returns the exit code of this command.
pub(super) fn attend(process: &Attended, watch: Watch) -> Result<ExitCode> {
    // Restored when this function returns.
    #[cfg(unix)]
    let raw = set_raw_mode(process)?;
    let followed = follow(process, watch);
    #[cfg(unix)]
    drop(raw);
    match followed {
        Ok(code) => Ok(ExitCode::from(code)),
        Err(error) => {
            process.kill();
            Err(error)
        }
    }
}

#[cfg(unix)]
fn set_raw_mode(process: &Attended) -> Result<Option<crate::commands::terminal::RawMode>> {
    use crate::commands::terminal::{RawMode, has_terminal};
    if !(process.has_terminal && process.is_interactive && has_terminal()) {
        return Ok(None);
    }
    RawMode::set().map(Some).map_err(|error| out_of_resources(&error))
}

fn follow(process: &Attended, watch: Watch) -> Result<u8> {
    let events = process.session.process_events(&process.sandbox, &process.id, 0, true)?;
    let Watch { sender, receiver } = watch;
    start_thread(&sender, move |sender| {
        for event in events {
            if sender.send(Happened::Event(event)).is_err() {
                return;
            }
        }
        let _ = sender.send(Happened::Finished);
    })?;
    start_input(process, &sender)?;
    if let Some(timeout) = process.timeout {
        start_thread(&sender, move |sender| {
            thread::sleep(timeout);
            let _ = sender.send(Happened::TimedOut);
        })?;
    }
    drop(sender);
    let mut is_signaled = false;
    let mut timed_out = false;
    let mut is_incomplete = false;
    for happened in receiver {
        let printed = match happened {
            Happened::Event(Ok(ProcessEvent::Stdout(text))) => {
                show::print_output(&text.into_bytes()?, Stream::Stdout)
            }
            Happened::Event(Ok(ProcessEvent::Stderr(text))) => {
                show::print_output(&text.into_bytes()?, Stream::Stderr)
            }
            // It waits for this reader, but the connection was cut off.
            Happened::Event(Ok(ProcessEvent::Dropped(dropped))) => {
                show::err(&format!("koze: {} bytes of the output were lost\n", dropped.bytes));
                is_incomplete = true;
                Ok(())
            }
            Happened::Event(Ok(ProcessEvent::Exit(_))) if timed_out => return Ok(TIMED_OUT),
            Happened::Event(Ok(ProcessEvent::Exit(_))) if is_incomplete => return Ok(KOZE_FAILED),
            Happened::Event(Ok(ProcessEvent::Exit(exit))) => {
                return Ok(u8::try_from(exit.exit_code).unwrap_or(u8::MAX));
            }
            Happened::Event(Ok(ProcessEvent::Error(details))) => {
                let error = to_error(details);
                if error.code != Code::NotFound {
                    return Err(error);
                }
                show::err("koze: the sandbox was stopped\n");
                return Ok(KILLED);
            }
            Happened::Event(Err(error)) => return Err(error),
            Happened::Finished => {
                return Err(Error::new(Code::Unavailable, "the events ended before the process"));
            }
            Happened::Signal(signal) => {
                // An interactive shell ignores a termination.
                let is_passed = signal == Signal::Interrupt || !process.has_terminal;
                if is_signaled || !is_passed {
                    process.kill();
                    return Ok(SIGNALED + signal.number());
                }
                is_signaled = true;
                process.signal(signal)?;
                PENDING.store(0, Ordering::SeqCst);
                Ok(())
            }
            #[cfg(unix)]
            Happened::Resized => {
                resize(process);
                Ok(())
            }
            Happened::TimedOut => {
                timed_out = true;
                process.kill();
                Ok(())
            }
        };
        match printed {
            Ok(()) => {}
            // Nobody reads the output any more.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => {
                process.kill();
                return Ok(NO_READER);
            }
            Err(error) => {
                process.kill();
                show::err(&format!("error: the output cannot be written: {error}\n"));
                return Ok(KOZE_FAILED);
            }
        }
    }
    Err(Error::new(Code::Internal, "the threads of this command ended before the process"))
}

/// Starts a thread that reports what happens.
fn start_thread(
    sender: &SyncSender<Happened>,
    run: impl FnOnce(SyncSender<Happened>) + Send + 'static,
) -> Result<()> {
    let sender = sender.clone();
    let started = thread::Builder::new().spawn(move || run(sender));
    started.map(drop).map_err(|error| out_of_resources(&error))
}

/// Sends the input of this command to the process, on a thread for which nobody waits. Without one, the process reads its end.
fn start_input(process: &Attended, sender: &SyncSender<Happened>) -> Result<()> {
    if !process.is_interactive {
        // A terminal stays open.
        if !process.has_terminal {
            ignore_end(process.session.write_stdin(&process.sandbox, &process.id, b"", true).map(drop))?;
        }
        return Ok(());
    }
    let process = process.clone();
    let sender = sender.clone();
    let started = thread::Builder::new().spawn(move || {
        let mut buffer = vec![0; PIECE];
        let mut stdin = io::stdin().lock();
        loop {
            let length = match stdin.read(&mut buffer) {
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Ok(length) => length,
                Err(_) => 0,
            };
            let mut rest = &buffer[..length];
            loop {
                // A process that does not read is asked again.
                match process.session.write_stdin(&process.sandbox, &process.id, rest, length == 0) {
                    Ok(written) => rest = rest.get(written..).unwrap_or_default(),
                    // It has ended, or closed its input.
                    Err(error) if matches!(error.code, Code::InvalidInput | Code::NotFound) => return,
                    Err(error) => {
                        let _ = sender.send(Happened::Event(Err(error)));
                        return;
                    }
                }
                if rest.is_empty() {
                    break;
                }
            }
            if length == 0 {
                return;
            }
        }
    });
    started.map(drop).map_err(|error| out_of_resources(&error))
}

/// Accepts that a process has ended, or closed its input.
fn ignore_end(done: Result<()>) -> Result<()> {
    match done {
        Err(error) if matches!(error.code, Code::InvalidInput | Code::NotFound) => Ok(()),
        done => done,
    }
}

/// Begins to receive the signals to this command.
///
/// # Errors
/// [`Code::Unavailable`] if the system is out of resources.
pub(super) fn watch_signals() -> Result<Watch> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| out_of_resources(&error))?;
    let signals = {
        let _context = runtime.enter();
        Signals::register().map_err(|error| out_of_resources(&error))?
    };
    let (sender, receiver) = sync_channel(AHEAD);
    start_thread(&sender, move |sender| runtime.block_on(signals.report(&sender)))?;
    Ok(Watch { sender, receiver })
}

/// Reports a signal, unless nobody listens any more. If the last one was not handled yet, because the server or the reader of
/// the output does not answer, ends this command.
fn report_signal(sender: &SyncSender<Happened>, happened: Happened) -> bool {
    let Happened::Signal(signal) = happened else {
        return !matches!(sender.try_send(happened), Err(TrySendError::Disconnected(_)));
    };
    if PENDING.fetch_add(1, Ordering::SeqCst) > 0 {
        #[cfg(unix)]
        crate::commands::terminal::restore();
        std::process::exit(i32::from(SIGNALED + signal.number()));
    }
    match sender.try_send(Happened::Signal(signal)) {
        Err(TrySendError::Disconnected(_)) => false,
        // A full channel means that the output is blocked: the next signal ends this command.
        _ => true,
    }
}

/// How many signals were reported and not handled yet.
static PENDING: AtomicUsize = AtomicUsize::new(0);

/// The signals to this command.
#[cfg(unix)]
struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
    hangup: tokio::signal::unix::Signal,
    resized: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    fn register() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        Ok(Signals {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
            resized: signal(SignalKind::window_change())?,
        })
    }

    /// Reports them until nobody listens.
    async fn report(mut self, sender: &SyncSender<Happened>) {
        loop {
            let happened = tokio::select! {
                _ = self.interrupt.recv() => Happened::Signal(Signal::Interrupt),
                _ = self.terminate.recv() => Happened::Signal(Signal::Terminate),
                _ = self.hangup.recv() => Happened::Signal(Signal::Hangup),
                _ = self.resized.recv() => Happened::Resized,
            };
            if !report_signal(sender, happened) {
                return;
            }
        }
    }
}

/// The signals to this command: Ctrl-C.
#[cfg(not(unix))]
struct Signals;

#[cfg(not(unix))]
impl Signals {
    #[allow(clippy::unnecessary_wraps, reason = "as on Unix")]
    fn register() -> io::Result<Self> {
        Ok(Signals)
    }

    /// Reports them until nobody listens.
    async fn report(self, sender: &SyncSender<Happened>) {
        while tokio::signal::ctrl_c().await.is_ok() {
            if !report_signal(sender, Happened::Signal(Signal::Interrupt)) {
                return;
            }
        }
    }
}

/// Gives the process's terminal the size of this command's.
#[cfg(unix)]
fn resize(process: &Attended) {
    if process.has_terminal {
        // A terminal that is no longer open needs no size.
        let _ = process.session.resize_terminal(&process.sandbox, &process.id, super::terminal_size());
    }
}

fn out_of_resources(error: &io::Error) -> Error {
    Error::new(Code::Unavailable, format!("the system is out of resources: {error}"))
}
