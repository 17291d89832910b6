//! Runs one program until it exits, times out, or its call is canceled.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use koze_protocol::operation::Exec;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};

use super::budget::Held;
use super::call::{Call, End};
use super::drain::Drain;
use super::guest::Guest;
use super::memory;
use super::request::LARGEST_OUTPUT;
use super::wakeup::Wakeup;
use crate::message::{Code, Fault};
use crate::output::Kept;
use crate::process::Streams;

/// How long to wait for a killed program to exit. If the kernel does not release it by then, the guest stops waiting.
const KILL_TIMEOUT: Duration = Duration::from_secs(5);
/// How much is read from a pipe after its program exited: the maximum capacity of a pipe.
const PIPE: usize = 1 << 20;
/// The size of one read, in bytes.
const PIECE: usize = 64 << 10;
/// The exit code of a program that timed out.
const TIMEOUT: i32 = 124;

/// The result of a program.
pub(super) struct Ended {
    pub(super) stdout: Vec<u8>,
    pub(super) stderr: Vec<u8>,
    pub(super) exit_code: i32,
    pub(super) timed_out: bool,
}

struct Stream {
    pipe: OwnedFd,
    kept: Kept,
    open: bool,
}

impl Stream {
    /// Creates a pipe. Returns it with the end that the program writes to.
    fn new(limit: usize) -> io::Result<(Self, OwnedFd)> {
        let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
        let flags = rustix::fs::fcntl_getfl(&read)?;
        rustix::fs::fcntl_setfl(&read, flags | OFlags::NONBLOCK)?;
        Ok((Stream { pipe: read, kept: Kept::new(limit), open: true }, write))
    }

    /// Reads available output, at most one piece. Returns its length.
    fn read(&mut self, buffer: &mut [u8]) -> usize {
        loop {
            match rustix::io::read(&self.pipe, &mut *buffer) {
                Ok(read) => {
                    self.open = read > 0;
                    self.kept.push(&buffer[..read]);
                    return read;
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return 0,
                Err(_) => {
                    self.open = false;
                    return 0;
                }
            }
        }
    }

    /// Returns the kept output and a note. Background processes may go on writing to the pipe.
    fn finish(mut self, buffer: &mut [u8], note: &str, drain: &Drain) -> Vec<u8> {
        let mut left = PIPE;
        while self.open && left > 0 {
            match self.read(buffer) {
                0 => break,
                read => left = left.saturating_sub(read),
            }
        }
        if self.open {
            drain.add(self.pipe);
        }
        self.kept.push(note.as_bytes());
        self.kept.finish()
    }
}

/// Runs a program. The timeout covers only the run itself: the kept output is sent afterwards.
pub(super) fn run_program(guest: &Guest, call: &Call, what: Exec, held: Held) -> Result<Ended, End> {
    let Exec { argv, working_dir, env, timeout_ms, max_output, .. } = what;
    let failed = |error: io::Error| {
        Fault::new(Code::Unavailable, format!("no pipe can be created for the program: {error}"))
    };
    let limit = max_output.min(LARGEST_OUTPUT) as usize;
    let wakeup = Arc::new(Wakeup::new().map_err(failed)?);
    let (mut stdout, out) = Stream::new(limit).map_err(failed)?;
    let (mut stderr, err) = Stream::new(limit).map_err(failed)?;
    let env = guest.environment.with(env);
    let streams = Streams::output(vec![out, err])?;
    let killed_before = guest.kills.count();
    let running = guest.programs.start(&argv, &working_dir, &env, streams, Arc::clone(&wakeup))?;
    // A program may run for long; these are no longer needed.
    drop((argv, env, held));
    call.streams.notify_when_stopped(&wakeup);

    let mut buffer = vec![0; PIECE];
    let mut until = Instant::now().checked_add(Duration::from_millis(timeout_ms.into()));
    let (mut late, mut stopped) = (false, false);
    let code = loop {
        if let Some(code) = running.code.get() {
            break Some(*code);
        }
        if !stopped && call.streams.stopped() {
            stopped = true;
            guest.programs.kill(&running);
            until = Some(Instant::now() + KILL_TIMEOUT);
        }
        if until.is_some_and(|until| Instant::now() >= until) {
            if late || stopped {
                break None;
            }
            late = true;
            guest.programs.kill(&running);
            until = Some(Instant::now() + KILL_TIMEOUT);
            continue;
        }
        wait_for_program(&mut stdout, &mut stderr, &wakeup, until, &mut buffer);
    };
    // Of a script, the kernel may have killed only one program.
    let has_failed = code.is_some_and(|code| code != 0);
    let note = if has_failed && guest.kills.count() > killed_before { memory::REASON } else { "" };
    let stdout = stdout.finish(&mut buffer, "", &guest.drain);
    let stderr = stderr.finish(&mut buffer, note, &guest.drain);
    match code {
        _ if stopped => Err(End::Stopped),
        _ if late => Ok(Ended { stdout, stderr, exit_code: TIMEOUT, timed_out: true }),
        Some(exit_code) => Ok(Ended { stdout, stderr, exit_code, timed_out: false }),
        // Only a killed program is abandoned.
        None => Err(End::Stopped),
    }
}

/// Waits for output, the wakeup or the deadline, and reads one piece of each readable stream.
fn wait_for_program(
    stdout: &mut Stream,
    stderr: &mut Stream,
    wakeup: &Wakeup,
    until: Option<Instant>,
    buffer: &mut [u8],
) {
    let left = until.map(|until| until.saturating_duration_since(Instant::now()));
    // A timeout that is too long for the kernel means no timeout.
    let timeout = left.and_then(|left| Timespec::try_from(left + Duration::from_millis(1)).ok());
    let flags = |open| if open { PollFlags::IN } else { PollFlags::empty() };
    let mut ready = [
        PollFd::from_borrowed_fd(wakeup.as_fd(), PollFlags::IN),
        PollFd::from_borrowed_fd(stdout.pipe.as_fd(), flags(stdout.open)),
        PollFd::from_borrowed_fd(stderr.pipe.as_fd(), flags(stderr.open)),
    ];
    // A stream at its end is always ready, so it is left out.
    let ready = match (stdout.open, stderr.open) {
        (false, false) => &mut ready[..1],
        (true, false) => &mut ready[..2],
        (false, true) => {
            ready.swap(1, 2);
            &mut ready[..2]
        }
        (true, true) => &mut ready[..],
    };
    if poll(ready, timeout.as_ref()).is_err() {
        return;
    }
    if !ready[0].revents().is_empty() {
        wakeup.reset();
    }
    for stream in [stdout, stderr] {
        if stream.open {
            stream.read(buffer);
        }
    }
}
