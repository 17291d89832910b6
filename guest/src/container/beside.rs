//! Runs the guest in a container that has another first process, such as the server of Cloudflare's Sandbox SDK. The
//! guest runs in the background; no process of the container waits for it.
//!
//! In a container with `CAP_SYS_ADMIN`, the guest is the first process of its own PID namespace, below the container's.
//! Programs then reach neither the guest nor the container's first process: `kill -9 -1` and `kill -TERM 1` end neither.
//! In other containers it is an ordinary process, which programs of the same user may kill.
#![allow(unsafe_code, reason = "fork, unshare and mount have no safe form")]

use std::ffi::CStr;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Write as _};
use std::os::fd::OwnedFd;
use std::process::ExitCode;
use std::ptr;

use rustix::fs::{Mode, OFlags};
use rustix::pipe::{PipeFlags, pipe_with};

/// What could not be done, and why.
pub(super) type Failed = (&'static str, io::Error);

/// The signals that the guest ignores: `kill -- -1` in the sandbox also reaches the guest, and must not end it.
pub(super) const IGNORED: [i32; 7] =
    [libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGQUIT, libc::SIGUSR1, libc::SIGUSR2, libc::SIGALRM];

/// Variables of the shell that started the guest. They do not describe the container.
pub(super) const OF_THE_SHELL: [&str; 4] = ["PWD", "OLDPWD", "SHLVL", "_"];

/// The beginning of the line that the background process prints once it listens; the port follows.
const LISTENS: &str = "listens at ";
/// The beginning of the line with its process ID, in the namespace of the foreground process.
const PROCESS: &str = "is process ";
/// The line that it prints instead if it cannot have its own namespaces.
const NOT_APART: &str = "cannot have its own namespaces";

/// The pipe on which the background process reports that it listens.
pub(super) struct Ready(File);

impl Ready {
    /// Reports the port.
    pub(super) fn listens(mut self, port: u16) {
        // Without a reader there will be no client either.
        let _ = writeln!(self.0, "{LISTENS}{port}");
    }
}

/// Runs the guest in the background. Once it listens, prints its port and process ID, and returns. No other thread runs
/// yet.
pub(super) fn start_in_background(run: impl FnOnce(Ready) -> Result<(), Failed>) -> ExitCode {
    let mut is_apart = true;
    loop {
        let (read, write) = match pipe_with(PipeFlags::CLOEXEC) {
            Ok(ends) => ends,
            Err(error) => return report_failure(&format!("cannot make a pipe: {error}")),
        };
        // SAFETY: this is the only thread, so the child's copy of memory is consistent.
        let child = match unsafe { libc::fork() } {
            -1 => {
                return report_failure(&format!(
                    "cannot run in the background: {}",
                    io::Error::last_os_error()
                ));
            }
            0 => {
                drop(read);
                let pipe = File::from(write);
                return if is_apart { start_apart(pipe, run) } else { run_in_background(pipe, false, run) };
            }
            child => child,
        };
        drop(write);
        let reported = report_start(read, child);
        if is_apart {
            // This child has started the guest, or failed to. Nobody else would reap it.
            // SAFETY: a null pointer receives no status.
            unsafe { libc::waitpid(child, ptr::null_mut(), 0) };
        }
        match reported {
            Some(code) => return code,
            None => is_apart = false,
        }
    }
}

/// Prints what the background process reports. Returns `None` if it cannot have its own namespaces. `child` is its
/// process ID unless it reports another one.
fn report_start(read: OwnedFd, child: libc::pid_t) -> Option<ExitCode> {
    let mut process = child.to_string();
    let mut lines = BufReader::new(File::from(read));
    loop {
        let mut line = String::new();
        // Only whole lines, because the background process keeps its end of the pipe open.
        match lines.read_line(&mut line) {
            Ok(0) => return Some(report_failure("ended before it listened")),
            Err(error) => return Some(report_failure(&error.to_string())),
            Ok(_) => {}
        }
        let line = line.trim_end();
        if line == NOT_APART {
            return None;
        }
        match (line.strip_prefix(PROCESS), line.strip_prefix(LISTENS)) {
            (Some(number), _) => number.clone_into(&mut process),
            (_, Some(port)) => {
                println!("koze-guest {LISTENS}{port} as {process}");
                return Some(ExitCode::SUCCESS);
            }
            _ => return Some(report_failure(line)),
        }
    }
}

/// Leaves the namespaces of the container, and starts the guest as the first process of the new ones.
fn start_apart(mut pipe: File, run: impl FnOnce(Ready) -> Result<(), Failed>) -> ExitCode {
    if leave_namespaces().is_err() {
        let _ = writeln!(pipe, "{NOT_APART}");
        return ExitCode::FAILURE;
    }
    let Ok((read, write)) = pipe_with(PipeFlags::CLOEXEC) else { return ExitCode::FAILURE };
    // SAFETY: this is the only thread, so the child's copy of memory is consistent.
    match unsafe { libc::fork() } {
        -1 => {
            let _ = writeln!(pipe, "{NOT_APART}");
            ExitCode::FAILURE
        }
        0 => {
            drop(write);
            // Its process ID is reported before its port.
            let _ = BufReader::new(File::from(read)).read_line(&mut String::new());
            run_in_background(pipe, true, run)
        }
        child => {
            let _ = writeln!(pipe, "{PROCESS}{child}");
            drop(write);
            ExitCode::SUCCESS
        }
    }
}

/// Gives this process its own mount namespace, and its children their own PID namespace. This needs `CAP_SYS_ADMIN`.
fn leave_namespaces() -> io::Result<()> {
    // Later mounts of the container appear in the new namespace, and those of the new namespace not in the container.
    change_mount(c"none", c"/", libc::MS_REC | libc::MS_SHARED)?;
    // SAFETY: no memory is affected, and this is the only thread.
    if unsafe { libc::unshare(libc::CLONE_NEWNS | libc::CLONE_NEWPID) } != 0 {
        return Err(io::Error::last_os_error());
    }
    change_mount(c"none", c"/", libc::MS_REC | libc::MS_SLAVE)
}

fn change_mount(kind: &CStr, at: &CStr, flags: libc::c_ulong) -> io::Result<()> {
    // SAFETY: the strings end with NUL, and no data is passed.
    let done = unsafe { libc::mount(kind.as_ptr(), at.as_ptr(), kind.as_ptr(), flags, ptr::null()) };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Runs the background process. If `is_apart` is set, it is the first process of its PID namespace.
fn run_in_background(
    mut pipe: File,
    is_apart: bool,
    run: impl FnOnce(Ready) -> Result<(), Failed>,
) -> ExitCode {
    let Ok(mut other) = pipe.try_clone() else { return ExitCode::FAILURE };
    // The log is that of the container's first process, which the new `/proc` does not show.
    let detached = leave_session().map_err(|error| ("cannot leave its session", error));
    let flags = libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOEXEC;
    if is_apart && change_mount(c"proc", c"/proc", flags).is_err() {
        let _ = writeln!(pipe, "{NOT_APART}");
        return ExitCode::FAILURE;
    }
    match detached.and_then(|()| run(Ready(pipe))) {
        Ok(()) => ExitCode::SUCCESS,
        Err((what, error)) => {
            let _ = writeln!(other, "{what}: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Leaves the session, directory and streams of the program that started it.
fn leave_session() -> io::Result<()> {
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

fn report_failure(why: &str) -> ExitCode {
    eprintln!("koze-guest: {why}");
    ExitCode::FAILURE
}
