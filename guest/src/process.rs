//! Starts programs, and kills them with their descendants.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitOptions, WaitStatus};

use crate::message::{Code, Fault};
use crate::place;
use crate::spawn::{Program, spawn_program};

/// How often the descendants of a program are searched for those that are not stopped, and for those that are not dead.
const ROUNDS: usize = 64;
/// How long processes have between two searches to receive the signal that was sent to them.
const PAUSE: Duration = Duration::from_millis(1);

/// The standard streams of a program.
#[derive(Debug)]
pub(crate) struct Streams {
    /// `None` means an empty standard input.
    stdin: Option<OwnedFd>,
    stdout: OwnedFd,
    stderr: OwnedFd,
    terminal: bool,
}

impl Streams {
    /// Standard output and error; standard input is empty.
    pub(crate) fn output(descriptors: Vec<OwnedFd>) -> Result<Self, Fault> {
        let Ok([stdout, stderr]) = <[OwnedFd; 2]>::try_from(descriptors) else {
            return Err(Fault::new(Code::Internal, "a program needs two file descriptors"));
        };
        Ok(Streams { stdin: None, stdout, stderr, terminal: false })
    }

    /// All three streams, and whether they are a terminal.
    pub(crate) fn all(descriptors: Vec<OwnedFd>, terminal: bool) -> Result<Self, Fault> {
        let Ok([stdin, stdout, stderr]) = <[OwnedFd; 3]>::try_from(descriptors) else {
            return Err(Fault::new(Code::Internal, "a process needs three file descriptors"));
        };
        Ok(Streams { stdin: Some(stdin), stdout, stderr, terminal })
    }
}

/// Starts a program and returns its process ID.
pub(crate) fn start_program<T: AsRef<OsStr>>(
    argv: &[String],
    cwd: &str,
    env: &[(T, T)],
    streams: Streams,
) -> Result<Pid, Fault> {
    let Some(program) = argv.first().filter(|program| !program.is_empty()) else {
        return Err(Fault::new(Code::InvalidInput, "`argv` is empty: there is no program to run"));
    };
    let variables = || env.iter().map(|(name, value)| (name.as_ref().as_bytes(), value.as_ref().as_bytes()));
    let texts = argv.iter().map(String::as_bytes).chain(variables().flat_map(|(name, value)| [name, value]));
    if texts.into_iter().any(|text| text.contains(&0)) {
        return Err(Fault::new(
            Code::InvalidInput,
            "arguments and environment variables must not contain NUL bytes",
        ));
    }
    if variables().any(|(name, _)| name.is_empty() || name.contains(&b'=')) {
        return Err(Fault::new(
            Code::InvalidInput,
            "the name of an environment variable must not be empty, and must not contain `=`",
        ));
    }
    check_lengths(argv, variables())?;
    place::check_path(cwd)?;
    // The error of exec would not distinguish a missing directory from a missing program.
    match fs::metadata(cwd) {
        Ok(found) if found.is_dir() => {}
        Ok(_) => return Err(Fault::new(Code::NotADirectory, format!("{cwd} is not a directory"))),
        Err(error) => return Err(place::fault(&error, cwd)),
    }
    let null = fs::File::open("/dev/null").map_err(|error| failed_start(&error, program))?;
    let Streams { stdin, stdout, stderr, terminal } = streams;
    let stdin = stdin.as_ref().map_or(null.as_fd(), AsFd::as_fd);
    let streams = [stdin, stdout.as_fd(), stderr.as_fd()];
    spawn_program(&Program { argv, cwd, env, streams, terminal })
        .map_err(|error| failed_start(&error, program))
}

/// The maximum length of an argument, and of the name and value of a variable with `=` between them, in bytes. Linux sets it.
const MAX_ARGUMENT: usize = 131_071;

/// Names the argument or variable that is too long, which the error of exec does not.
fn check_lengths<'a>(
    argv: &[String],
    variables: impl Iterator<Item = (&'a [u8], &'a [u8])>,
) -> Result<(), Fault> {
    let too_long = |what: String, length: usize| {
        let text = format!(
            "{what} has {length} bytes: Linux passes at most {MAX_ARGUMENT} in one argument or environment variable. Write \
             long texts to files, and pass the paths of the files"
        );
        Fault::new(Code::TooLarge, text)
    };
    for (number, argument) in argv.iter().enumerate() {
        if argument.len() > MAX_ARGUMENT {
            return Err(too_long(format!("argument {number} of the program"), argument.len()));
        }
    }
    for (name, value) in variables {
        let length = name.len() + 1 + value.len();
        if length > MAX_ARGUMENT {
            let name = String::from_utf8_lossy(&name[..name.len().min(100)]);
            return Err(too_long(format!("the environment variable `{name}`"), length));
        }
    }
    Ok(())
}

fn failed_start(error: &io::Error, program: &str) -> Fault {
    match error.raw_os_error() {
        Some(libc::ENOENT) => Fault::new(Code::NotFound, format!("the program {program} does not exist")),
        Some(libc::EACCES) => Fault::new(Code::PermissionDenied, format!("{program} cannot be run")),
        Some(libc::ENOEXEC) => {
            Fault::new(Code::InvalidInput, format!("{program} is not an executable program"))
        }
        Some(libc::E2BIG) => Fault::new(
            Code::TooLarge,
            "the arguments and environment variables of the program are too long together: Linux passes at most 2 MiB, less \
             where the stack of programs is limited. Write long texts to files, and pass the paths of the files",
        ),
        Some(libc::EAGAIN) => Fault::new(Code::Unavailable, "the sandbox has too many processes"),
        Some(libc::ENOMEM) => Fault::new(Code::Unavailable, "the sandbox is out of memory"),
        _ => Fault::new(Code::Internal, format!("{program} did not start: {error}")),
    }
}

/// Returns the next child that has exited, with its exit code, or that was stopped.
pub(crate) fn reap_child() -> Option<(Pid, Option<i32>)> {
    loop {
        match rustix::process::wait(WaitOptions::NOHANG | WaitOptions::UNTRACED) {
            Ok(Some((pid, status))) if status.stopped() => return Some((pid, None)),
            Ok(Some((pid, status))) => return Some((pid, Some(exit_code(status)))),
            Err(rustix::io::Errno::INTR) => {}
            Ok(None) | Err(_) => return None,
        }
    }
}

fn exit_code(status: WaitStatus) -> i32 {
    status.exit_status().or_else(|| status.terminating_signal().map(|signal| 128 + signal)).unwrap_or(-1)
}

/// Kills a program and its descendants, including those in other sessions and process groups.
///
/// The program is the last to be killed: while it lives, orphans among its descendants are reparented to it.
pub(crate) fn kill_tree(root: Pid) {
    kill_those_below(root);
    let _ = rustix::process::kill_process_group(root, Signal::KILL);
    let _ = rustix::process::kill_process(root, Signal::KILL);
}

/// Sends a signal to the group of a program that has not been reaped; SIGKILL goes to all its descendants.
pub(crate) fn signal_group(root: Pid, number: i32) -> Result<(), Fault> {
    let Some(signal) = Signal::from_named_raw(number) else {
        return Err(Fault::new(Code::InvalidInput, format!("there is no signal {number}")));
    };
    if signal == Signal::KILL {
        kill_tree(root);
    } else {
        // A program that has just exited may have left no group.
        let _ = rustix::process::kill_process_group(root, signal);
    }
    Ok(())
}

/// Kills all descendants of this process.
pub(crate) fn kill_below() {
    kill_those_below(rustix::process::getpid());
}

/// Stops a program and all its descendants, and kills the descendants. If the program is this process, it goes on.
///
/// None is killed before all are stopped: a shell would go on with its next command.
fn kill_those_below(root: Pid) {
    let this = rustix::process::getpid();
    until_none(Signal::STOP, || {
        let mut all = find_descendants(root);
        all.retain(|found| found.pid != this && found.may_fork());
        all
    });
    // Those whose parent was about to create them when it was stopped are found now.
    until_none(Signal::KILL, || {
        let mut all = find_descendants(root);
        all.retain(|found| found.pid != root && !found.is_dead());
        all
    });
}

/// Sends a signal to the processes that are found, until none is found.
fn until_none(signal: Signal, find: impl Fn() -> Vec<Found>) {
    for _ in 0..ROUNDS {
        let all = find();
        if all.is_empty() {
            break;
        }
        for found in all {
            let _ = rustix::process::kill_process(found.pid, signal);
        }
        thread::sleep(PAUSE);
    }
}

/// A process, as `/proc/PID/stat` describes it.
struct Found {
    pid: Pid,
    /// One letter: see `proc_pid_stat(5)`.
    state: u8,
}

impl Found {
    /// Returns whether the process may yet create another one. A process that is stopped in the middle of `fork` still
    /// creates it, and runs until then. One in uninterruptible sleep (`D`) is taken to stand still, as it may be waiting
    /// for a stopped child of `vfork`.
    fn may_fork(&self) -> bool {
        matches!(self.state, b'R' | b'S')
    }

    fn is_dead(&self) -> bool {
        matches!(self.state, b'Z' | b'X')
    }
}

/// Returns a process and its descendants.
fn find_descendants(root: Pid) -> Vec<Found> {
    let mut children: HashMap<i32, Vec<Found>> = HashMap::new();
    let mut all = Vec::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse().ok()).and_then(Pid::from_raw) else {
            continue;
        };
        let Ok(stat) = fs::read_to_string(entry.path().join("stat")) else { continue };
        let Some((state, parent)) = parse_stat(&stat) else { continue };
        let found = Found { pid, state };
        if pid == root {
            all.push(found);
        } else {
            children.entry(parent).or_default().push(found);
        }
    }
    let mut next = 0;
    while let Some(found) = all.get(next) {
        let below = children.remove(&found.pid.as_raw_pid());
        all.extend(below.into_iter().flatten());
        next += 1;
    }
    all
}

/// Returns the state and the parent process ID from the text of `/proc/PID/stat`. The process name in parentheses may
/// contain anything, including parentheses.
fn parse_stat(stat: &str) -> Option<(u8, i32)> {
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let state = *fields.next()?.as_bytes().first()?;
    Some((state, fields.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_long_is_named() {
        let check = |argv: &[String], name: &str, value: &str| {
            check_lengths(argv, std::iter::once((name.as_bytes(), value.as_bytes())))
        };
        let most = "x".repeat(MAX_ARGUMENT);
        check(&["a".into(), most.clone()], "A", &most[2..]).unwrap();
        let fault = check(&["a".into(), format!("{most}x")], "A", "").unwrap_err();
        assert_eq!(fault.why, Code::TooLarge);
        assert!(fault.text.starts_with("argument 1 of the program has 131072 bytes: "), "{}", fault.text);
        let fault = check(&[], "A", &most[1..]).unwrap_err();
        assert!(fault.text.starts_with("the environment variable `A` has 131072 bytes: "), "{}", fault.text);
    }

    #[test]
    fn names_of_processes_do_not_confuse() {
        assert_eq!(parse_stat("17 (a) 1 2 (b) S 9 17 17 0"), Some((b'S', 9)));
        assert_eq!(parse_stat("nonsense"), None);
    }
}
