//! Runs the guest in a container that has another first process, such as the server of Cloudflare's Sandbox SDK. The
//! guest runs in the background; no process of the container waits for it.
#![allow(unsafe_code, reason = "fork has no safe form")]

use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::fd::OwnedFd;
use std::process::ExitCode;

use rustix::fs::{Mode, OFlags};
use rustix::pipe::{PipeFlags, pipe_with};

use super::Failed;

/// The signals that the guest ignores: `kill -- -1` in the sandbox also reaches the guest, and must not end it.
pub(super) const IGNORED: [i32; 7] =
    [libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGQUIT, libc::SIGUSR1, libc::SIGUSR2, libc::SIGALRM];

/// Variables of the shell that started the guest. They do not describe the container.
pub(super) const OF_THE_SHELL: [&str; 4] = ["PWD", "OLDPWD", "SHLVL", "_"];

/// The beginning of the line that the foreground process prints; the port follows.
const LISTENS: &str = "listens at ";

/// The pipe on which the background process reports that it listens.
pub(super) struct Ready(File);

impl Ready {
    /// Reports the port.
    pub(super) fn listens(mut self, port: u16) {
        // Without a reader there will be no client either.
        let _ = writeln!(self.0, "{LISTENS}{port}");
    }
}

/// Runs the guest in the background. Once it listens, prints its port and returns. No other thread runs yet.
pub(super) fn start(run: impl FnOnce(Ready) -> Result<(), Failed>) -> ExitCode {
    let (read, write) = match pipe_with(PipeFlags::CLOEXEC) {
        Ok(ends) => ends,
        Err(error) => return failed(&format!("cannot make a pipe: {error}")),
    };
    // SAFETY: this is the only thread, so the child's copy of memory is consistent.
    match unsafe { libc::fork() } {
        -1 => failed(&format!("cannot run in the background: {}", io::Error::last_os_error())),
        0 => {
            drop(read);
            background(File::from(write), run)
        }
        _ => {
            drop(write);
            front(read)
        }
    }
}

/// Runs the foreground process, which prints what the background process reports.
fn front(read: OwnedFd) -> ExitCode {
    let mut output = String::new();
    // One line only, because the background process keeps its end of the pipe open.
    match BufReader::new(File::from(read)).read_line(&mut output) {
        Ok(_) if output.starts_with(LISTENS) => {
            print!("koze-guest {output}");
            ExitCode::SUCCESS
        }
        Ok(0) => failed("ended before it listened"),
        Ok(_) => failed(output.trim_end()),
        Err(error) => failed(&error.to_string()),
    }
}

/// Runs the background process.
fn background(pipe: File, run: impl FnOnce(Ready) -> Result<(), Failed>) -> ExitCode {
    let Ok(mut other) = pipe.try_clone() else { return ExitCode::FAILURE };
    let detached = detach().map_err(|error| ("cannot leave its session", error));
    match detached.and_then(|()| run(Ready(pipe))) {
        Ok(()) => ExitCode::SUCCESS,
        Err((what, error)) => {
            let _ = writeln!(other, "{what}: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Leaves the session, directory and streams of the program that started it.
fn detach() -> io::Result<()> {
    rustix::process::setsid()?;
    rustix::process::chdir("/")?;
    let null = rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    // The container's own log. It is non-blocking so that the guest continues when the reader stops.
    let flags = OFlags::WRONLY | OFlags::NOCTTY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let log = rustix::fs::open("/proc/1/fd/2", flags, Mode::empty());
    rustix::stdio::dup2_stdin(&null)?;
    let log = log.as_ref().unwrap_or(&null);
    rustix::stdio::dup2_stdout(log)?;
    rustix::stdio::dup2_stderr(log)?;
    Ok(())
}

fn failed(why: &str) -> ExitCode {
    eprintln!("koze-guest: {why}");
    ExitCode::FAILURE
}
