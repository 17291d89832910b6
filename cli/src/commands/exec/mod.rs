//! `koze exec` and `koze shell`: run a program in a sandbox on this machine, with the standard streams of this command.

mod streams;

use std::os::fd::{AsFd as _, OwnedFd};
use std::pin::pin;
use std::process::ExitCode;
use std::task::Poll;

use koze_core::path::{HOME, absolute};
use koze_core::sandbox::process::Signal;
use koze_core::{Code, Error};
use rustix::termios::{Winsize, tcsetwinsize};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use self::streams::{End, Ending, copy_input, copy_output};
use super::local_session::{self, LocalSession};
use super::programs::{CANNOT_RUN, KOZE_FAILED, NO_PROGRAM, SIGNALED, choose_only_sandbox};
use super::show;
use super::terminal::{self, RawMode};
use crate::args;
use crate::provider::AttachedStreams;
use crate::session;
use crate::session::exec::{Attending, ExecError, Ran, Reports, Tells};
use crate::session::message::{ExecRequest, ExecStreams, Tell};

pub(super) fn run(args: &args::Exec) -> Result<ExitCode, ExitCode> {
    let failed = |_| ExitCode::from(KOZE_FAILED);
    let session = LocalSession::find(&args.session).map_err(failed)?;
    check_session(&session, &args.name).map_err(failed)?;
    if args.tty && args.interactive && !terminal::has_terminal() {
        show::usage("standard input is not a terminal: leave out -t");
        return Err(ExitCode::from(KOZE_FAILED));
    }
    let working_dir = absolute(args.workdir.as_deref().unwrap_or(HOME))
        .map_err(|error| show::usage(&format!("--workdir: {}", error.message)))
        .map_err(failed)?;
    let streams = match (args.detach, args.tty) {
        (true, _) => ExecStreams::Kept,
        (_, true) => {
            let (rows, columns) = terminal::size();
            ExecStreams::Terminal { rows, columns }
        }
        _ => ExecStreams::Pipes,
    };
    let request = ExecRequest {
        profiles: local_session::profiles(&args.session).map_err(failed)?,
        sandbox: args.name.clone(),
        argv: args.argv.clone(),
        env: args.env.clone(),
        working_dir,
        streams,
        timeout: args.timeout,
    };
    let code = local_session::wait(async {
        match start_program(session.client().exec(request)).await {
            Ok((Ran::Detached(id), _)) => {
                show::out(&format!("{id}\n"));
                ExitCode::SUCCESS
            }
            Ok((Ran::Attached(attending), signals)) => {
                attend_program(attending, args.interactive, signals).await
            }
            Err(code) => code,
        }
    });
    code.map_err(failed)
}

/// Runs `koze shell`.
pub(super) fn run_shell(args: &args::Shell) -> Result<ExitCode, ExitCode> {
    let failed = |_| ExitCode::from(KOZE_FAILED);
    let session = LocalSession::find(&args.session).map_err(failed)?;
    let name = match &args.name {
        Some(name) => name.clone(),
        None => session
            .sandbox_names()
            .and_then(choose_only_sandbox)
            .map_err(|error| local_session::failed(&error))
            .map_err(failed)?,
    };
    check_session(&session, &name).map_err(failed)?;
    if !terminal::has_terminal() {
        show::usage("standard input is not a terminal: use `koze exec -i`, which needs none");
        return Err(ExitCode::from(KOZE_FAILED));
    }
    let profiles = local_session::profiles(&args.session).map_err(failed)?;
    let code = local_session::wait(async {
        match start_program(session.client().open_shell(profiles, &name, terminal::size())).await {
            Ok((attending, signals)) => attend_program(attending, true, signals).await,
            Err(code) => code,
        }
    });
    code.map_err(failed)
}

/// Shows that there is no such sandbox if the session has none. Does not create the session.
fn check_session(session: &LocalSession, name: &str) -> Result<(), ExitCode> {
    if session.state.has(&session.session) {
        return Ok(());
    }
    Err(local_session::failed(&session::no_sandbox_among(name, &[])))
}

/// Starts a program. Returns the signals that are for it: the first one may arrive while the program starts, and a second one then ends
/// this command.
///
/// # Errors
/// The exit code if the program does not run.
async fn start_program<T>(
    start: impl Future<Output = Result<T, ExecError>>,
) -> Result<(T, Signals), ExitCode> {
    let mut signals = Signals::new().map_err(|error| report_resources(&error))?;
    let mut start = pin!(start);
    let mut early = None;
    loop {
        tokio::select! {
            started = &mut start => match started {
                Ok(started) => return Ok((started, Signals { early, ..signals })),
                Err(error) => return Err(report_error(&error)),
            },
            number = signals.receive() => {
                let may_be_passed = matches!(
                    Signal::from_number(number),
                    Some(Signal::Interrupt | Signal::Quit | Signal::Terminate)
                );
                if early.is_some() || !may_be_passed {
                    return Err(ExitCode::from(SIGNALED + number));
                }
                early = Some(number);
            }
        }
    }
}

/// Shows why a program does not run, and returns the exit code for it.
fn report_error(error: &ExecError) -> ExitCode {
    let (error, code) = match error {
        ExecError::NotStarted(error) if error.code == Code::NotFound => (error, NO_PROGRAM),
        ExecError::NotStarted(error) if error.code == Code::PermissionDenied => (error, CANNOT_RUN),
        ExecError::NotStarted(error) | ExecError::Failed(error) => (error, KOZE_FAILED),
    };
    local_session::failed(error);
    ExitCode::from(code)
}

/// Copies the streams of a program until it has ended. The program is killed if this command ends earlier.
async fn attend_program(attending: Attending, is_interactive: bool, signals: Signals) -> ExitCode {
    let Attending { streams, reports, tells } = attending;
    // Restored when this function returns, before anything else is printed.
    let raw = match streams {
        AttachedStreams::Terminal(_) if is_interactive && terminal::has_terminal() => {
            RawMode::set().map(Some)
        }
        _ => Ok(None),
    };
    let raw = match raw {
        Ok(raw) => raw,
        Err(error) => return report_resources(&error),
    };
    let followed = match start_copying(streams, is_interactive) {
        Ok(copying) => follow_program(copying, reports, tells, signals).await,
        Err(error) => Outcome::NoResources(error),
    };
    drop(raw);
    match followed {
        Outcome::Exited { code, note } => {
            if let Some(note) = note {
                show::err(&format!("koze: {note}\n"));
            }
            ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX))
        }
        Outcome::Signaled(number) => ExitCode::from(SIGNALED + number),
        Outcome::Unwritable(error) => {
            show::err(&format!("error: the output cannot be written: {error}\n"));
            ExitCode::from(KOZE_FAILED)
        }
        Outcome::NoResources(error) => report_resources(&error),
        Outcome::Failed(error) => {
            local_session::failed(&error);
            ExitCode::from(KOZE_FAILED)
        }
    }
}

/// How it ended to attend a program.
enum Outcome {
    /// The program has ended.
    Exited { code: i32, note: Option<String> },
    /// This signal ends this command, and with it the program.
    Signaled(u8),
    /// The output cannot be written.
    Unwritable(rustix::io::Errno),
    /// No thread or descriptor can be created.
    NoResources(std::io::Error),
    /// The sandbox or the supervisor failed.
    Failed(Error),
}

/// The threads that copy the streams of a program.
struct Copying {
    /// Announces to them that the program has ended.
    ending: Ending,
    /// How they ended, and whether they copied standard error.
    finished: mpsc::UnboundedReceiver<(bool, End)>,
    /// How many still copy output.
    outputs: usize,
    /// The program's terminal, if it has one.
    terminal: Option<OwnedFd>,
}

/// Starts the threads. Input is not copied unless this is interactive: the program then reads its end.
fn start_copying(streams: AttachedStreams, is_interactive: bool) -> std::io::Result<Copying> {
    let ending = Ending::new()?;
    let (done, finished) = mpsc::unbounded_channel();
    let (input, outputs, terminal) = match streams {
        AttachedStreams::Pipes { stdin, stdout, stderr } => (stdin, vec![stdout, stderr], None),
        AttachedStreams::Terminal(terminal) => {
            (terminal.try_clone()?, vec![terminal.try_clone()?], Some(terminal))
        }
    };
    if is_interactive {
        // Nobody waits for this thread: standard input may never end.
        std::thread::Builder::new().spawn(move || copy_input(std::io::stdin().as_fd(), input))?;
    }
    let count = outputs.len();
    for (place, from) in outputs.into_iter().enumerate() {
        let (done, ending) = (done.clone(), ending.clone());
        let is_stderr = place == 1;
        std::thread::Builder::new().spawn(move || {
            let end = if is_stderr {
                copy_output(&from, std::io::stderr().as_fd(), &ending)
            } else {
                copy_output(&from, std::io::stdout().as_fd(), &ending)
            };
            let _ = done.send((is_stderr, end));
        })?;
    }
    Ok(Copying { ending, finished, outputs: count, terminal })
}

/// Waits until the program has ended and its output is copied. Meanwhile:
///
/// | event | what happens |
/// |---|---|
/// | nobody reads an output any more | the program learns of it by its next write |
/// | the window changes its size | so does the program's terminal |
/// | the first `SIGINT`, `SIGQUIT` or, without a terminal, `SIGTERM` | the program gets it |
/// | `SIGHUP`, or another signal | this command ends, and the program with it |
async fn follow_program(
    copying: Copying,
    mut reports: Reports,
    mut tells: Tells,
    mut signals: Signals,
) -> Outcome {
    let Copying { ending, mut finished, mut outputs, terminal } = copying;
    let mut resized = match signal(SignalKind::window_change()) {
        Ok(resized) => resized,
        Err(error) => return Outcome::NoResources(error),
    };
    if let Some(terminal) = &terminal {
        // The window may have changed its size since the request.
        copy_size(terminal);
    }
    let mut is_signaled = false;
    let mut failure = None;
    let mut exit = None;
    let mut report = pin!(reports.wait());
    while exit.is_none() || outputs > 0 {
        tokio::select! {
            ended = &mut report, if exit.is_none() => {
                match ended {
                    Ok(ended) => exit = Some(ended),
                    Err(error) => return Outcome::Failed(error),
                }
                ending.announce();
            }
            Some((is_stderr, end)) = finished.recv() => {
                outputs -= 1;
                if end != End::Finished && exit.is_none() {
                    tells.send(&Tell::Closed { stderr: is_stderr }).await;
                }
                if let End::Failed(error) = end {
                    failure = Some(error);
                }
            }
            _ = resized.recv() => {
                if let Some(terminal) = &terminal {
                    copy_size(terminal);
                }
            }
            number = signals.receive() => {
                let is_passed = match Signal::from_number(number) {
                    Some(Signal::Interrupt | Signal::Quit) => true,
                    // An interactive shell ignores it.
                    Some(Signal::Terminate) => terminal.is_none(),
                    _ => false,
                };
                if exit.is_some() || is_signaled || !is_passed {
                    return Outcome::Signaled(number);
                }
                is_signaled = true;
                tells.send(&Tell::Signal { number }).await;
            }
        }
    }
    if let Some(error) = failure {
        return Outcome::Unwritable(error);
    }
    let (code, note) = exit.expect("it has ended");
    Outcome::Exited { code, note }
}

/// Gives a program's terminal the size of this command's. The kernel tells its foreground programs (`SIGWINCH`).
fn copy_size(terminal: &OwnedFd) {
    let (rows, columns) = terminal::size();
    let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    // A terminal that is no longer open needs no size.
    let _ = tcsetwinsize(terminal, size);
}

/// Shows that no thread or descriptor can be created.
fn report_resources(error: &std::io::Error) -> ExitCode {
    let message = format!("the system is out of resources: {error}");
    local_session::failed(&Error::new(Code::Unavailable, message));
    ExitCode::from(KOZE_FAILED)
}

/// The signals that end this command, or that its program gets.
struct Signals {
    listening: Vec<(u8, tokio::signal::unix::Signal)>,
    /// The one that arrived before the program ran.
    early: Option<u8>,
}

impl Signals {
    fn new() -> std::io::Result<Self> {
        let listen = |signal_to: Signal| {
            let number = signal_to.number();
            Ok((number, signal(SignalKind::from_raw(number.into()))?))
        };
        let all = [Signal::Interrupt, Signal::Terminate, Signal::Quit, Signal::Hangup];
        let listening = all.into_iter().map(listen).collect::<std::io::Result<_>>()?;
        Ok(Signals { listening, early: None })
    }

    /// Returns the number of the next signal.
    async fn receive(&mut self) -> u8 {
        if let Some(early) = self.early.take() {
            return early;
        }
        std::future::poll_fn(|context| {
            for (number, signal) in &mut self.listening {
                if signal.poll_recv(context).is_ready() {
                    return Poll::Ready(*number);
                }
            }
            Poll::Pending
        })
        .await
    }
}
