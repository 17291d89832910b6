//! Runs programs in a sandbox.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use koze_guest::message::{Answer, Request};
use koze_guest::output::Kept;
use tokio::net::unix::pipe::Receiver;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until};

use super::background::Background;
use super::running::Running;
use crate::engine::engine;
use crate::errors::{convert_fault, gone_error};
use koze_core::error::{Code, Error, Result};
use koze_core::sandbox::{Command, Output};

/// How long the guest may take to kill a program. After that the whole sandbox is killed.
const KILL_TIMEOUT: Duration = Duration::from_secs(5);
/// How much is read from a pipe after its program exited: the maximum capacity of a pipe.
const PIPE: usize = 1 << 20;
/// How long the pipes of a program are not watched. Most programs exit earlier and fill no pipe, and watched pipes would wake
/// this thread when they close, before the guest answers.
const UNWATCHED: Duration = Duration::from_millis(2);
/// The exit code of a program that timed out.
const TIMEOUT: i32 = 124;

/// Runs a program. If the caller drops the future, the program is killed.
pub(super) async fn run_program(
    running: Arc<Running>,
    command: Command,
    env: Vec<(String, String)>,
) -> Result<Output> {
    let (done, output) = oneshot::channel();
    engine()?.spawn(async move {
        let mut done = done;
        let output = run_to_end(&running, command, env, &mut done).await;
        let _ = done.send(output);
    });
    output.await.map_err(|_| gone_error())?
}

struct Stream {
    pipe: Pipe,
    kept: Kept,
    open: bool,
}

/// The read end of a pipe.
enum Pipe {
    Unwatched(OwnedFd),
    Watched(Receiver),
}

impl AsFd for Pipe {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Pipe::Unwatched(pipe) => pipe.as_fd(),
            Pipe::Watched(pipe) => pipe.as_fd(),
        }
    }
}

impl Stream {
    /// Creates a pipe. Returns its write end, too.
    fn new(running: &Running, max_output: usize) -> io::Result<(Self, OwnedFd)> {
        let (read, write) = running.pipe()?;
        // Only of this end: programs expect writes to block.
        rustix::io::ioctl_fionbio(&read, true)?;
        let stream = Stream { pipe: Pipe::Unwatched(read), kept: Kept::new(max_output), open: true };
        Ok((stream, write))
    }

    /// Registers the pipe with tokio.
    fn watch(self) -> io::Result<Self> {
        let pipe = match self.pipe {
            Pipe::Unwatched(pipe) => Receiver::from_owned_fd_unchecked(pipe)?,
            Pipe::Watched(pipe) => pipe,
        };
        Ok(Stream { pipe: Pipe::Watched(pipe), ..self })
    }

    /// Waits until the pipe is readable, or forever if it is not watched.
    async fn readable(&self) -> io::Result<()> {
        match &self.pipe {
            Pipe::Unwatched(_) => std::future::pending().await,
            Pipe::Watched(pipe) => pipe.readable().await,
        }
    }

    /// Reads available output.
    fn read(&mut self, buffer: &mut [u8]) {
        let Pipe::Watched(pipe) = &self.pipe else { return };
        match pipe.try_read(buffer) {
            Ok(0) => self.open = false,
            Ok(read) => self.kept.push(&buffer[..read]),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => self.open = false,
        }
    }

    /// Adds a line of koze's own.
    fn note(&mut self, text: &str) {
        self.kept.push(format!("\nkoze: {text}\n").as_bytes());
    }

    /// Returns the kept output. Background processes may go on writing, and a closed pipe would kill them.
    fn finish(mut self, buffer: &mut [u8], note: Option<&str>, background: &Background) -> Vec<u8> {
        let mut left = PIPE;
        while left > 0 && self.open {
            // Read directly: tokio may not have been notified yet.
            match rustix::io::read(&self.pipe, &mut *buffer) {
                Ok(0) => self.open = false,
                Ok(read) => {
                    self.kept.push(&buffer[..read]);
                    left = left.saturating_sub(read);
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => break,
            }
        }
        if let Some(note) = note {
            self.note(note);
        }
        if !self.open {
            return self.kept.finish();
        }
        let kept = std::mem::replace(&mut self.kept, Kept::new(0)).finish();
        if let Ok(Stream { pipe: Pipe::Watched(pipe), .. }) = self.watch() {
            background.drain(pipe);
        }
        kept
    }
}

async fn run_to_end(
    running: &Running,
    command: Command,
    env: Vec<(String, String)>,
    done: &mut oneshot::Sender<Result<Output>>,
) -> Result<Output> {
    let failed = |error: io::Error| {
        Error::new(Code::Unavailable, format!("no pipe can be created for the program: {error}"))
            .with_source(error)
    };
    let (mut stdout, out) = Stream::new(running, command.max_output).map_err(failed)?;
    let (mut stderr, err) = Stream::new(running, command.max_output).map_err(failed)?;
    let judged_before = running.judgements.so_far();
    let number = running.number();
    let request = Request::Exec { argv: command.argv, cwd: command.working_dir, env };
    let mut ended = running.ask(number, &request, &[out.as_fd(), err.as_fd()]).await?;
    drop((out, err));

    let kill = Request::Kill { exec: number };
    let mut buffer = vec![0; 64 << 10];
    let start = Instant::now();
    let mut until = start.checked_add(command.timeout).unwrap_or_else(distant_deadline);
    let (mut watched, mut late, mut abandoned) = (false, false, false);
    let answer = loop {
        tokio::select! {
            biased;
            answer = &mut ended => break answer,
            () = sleep_until(until) => {
                if late || abandoned {
                    running.kill();
                } else {
                    late = true;
                    running.send_request(number, &kill, &[]).await?;
                }
                until = Instant::now() + KILL_TIMEOUT;
            }
            () = done.closed(), if !abandoned => {
                abandoned = true;
                running.send_request(number, &kill, &[]).await?;
                until = Instant::now() + KILL_TIMEOUT;
            }
            () = sleep_until(start + UNWATCHED), if !watched => {
                watched = true;
                match (stdout.watch(), stderr.watch()) {
                    (Ok(out), Ok(err)) => (stdout, stderr) = (out, err),
                    (Err(error), _) | (_, Err(error)) => {
                        running.send_request(number, &kill, &[]).await?;
                        return Err(failed(error));
                    }
                }
            }
            ready = stdout.readable(), if stdout.open => {
                if ready.is_ok() { stdout.read(&mut buffer); } else { stdout.open = false; }
            }
            ready = stderr.readable(), if stderr.open => {
                if ready.is_ok() { stderr.read(&mut buffer); } else { stderr.open = false; }
            }
        }
    };
    let exit_code = match answer.map(|received| received.message) {
        _ if late => TIMEOUT,
        Ok(Answer::Ended(code)) => code,
        Ok(Answer::Failed(fault)) => return Err(convert_fault(fault)),
        Ok(_) => return Err(Error::new(Code::Internal, "the guest returned an unexpected answer")),
        Err(_) => return Err(running.gone_error()),
    };
    let note = running.judgements.reason(judged_before, exit_code);
    let background = &running.background;
    let stdout = stdout.finish(&mut buffer, None, background);
    let stderr = stderr.finish(&mut buffer, note.as_deref(), background);
    Ok(Output { stdout, stderr, exit_code, timed_out: late })
}

/// A deadline that is never reached: one year from now.
fn distant_deadline() -> Instant {
    Instant::now() + Duration::from_hours(365 * 24)
}
