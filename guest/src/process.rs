//! Starts programs, and kills them with their descendants.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use rustix::process::{Pid, Signal, WaitOptions, WaitStatus};

use crate::message::{Code, Fault};
use crate::place;
use crate::spawn::{Program, spawn_program};

/// How often the descendants of a program are searched for new processes. Each round stops those it finds; the next
/// round finds the children that they created in between.
const ROUNDS: usize = 64;

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
/// The program is first stopped and not killed: while it lives, orphans among its descendants are reparented to it.
pub(crate) fn kill_tree(root: Pid) {
    let _ = rustix::process::kill_process(root, Signal::STOP);
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

fn kill_those_below(root: Pid) {
    let mut stopped = HashSet::from([root]);
    for _ in 0..ROUNDS {
        let mut new = false;
        for pid in find_descendants(root) {
            if stopped.insert(pid) {
                new = true;
                let _ = rustix::process::kill_process(pid, Signal::STOP);
            }
        }
        if !new {
            break;
        }
    }
    stopped.remove(&root);
    for pid in stopped {
        let _ = rustix::process::kill_process(pid, Signal::KILL);
    }
}

/// Returns a process and its descendants.
fn find_descendants(root: Pid) -> Vec<Pid> {
    let mut children: HashMap<i32, Vec<i32>> = HashMap::new();
    for entry in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else {
            continue;
        };
        let Some(parent) =
            fs::read_to_string(format!("/proc/{pid}/stat")).ok().and_then(|stat| parse_parent(&stat))
        else {
            continue;
        };
        children.entry(parent).or_default().push(pid);
    }
    let mut all = vec![root.as_raw_pid()];
    let mut next = 0;
    while let Some(pid) = all.get(next) {
        all.extend(children.remove(pid).unwrap_or_default());
        next += 1;
    }
    all.into_iter().filter_map(Pid::from_raw).collect()
}

/// Returns the parent process ID from the text of `/proc/PID/stat`. The process name in parentheses may contain
/// anything, including parentheses.
fn parse_parent(stat: &str) -> Option<i32> {
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
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
        assert_eq!(parse_parent("17 (a) 1 2 (b) S 9 17 17 0"), Some(9));
        assert_eq!(parse_parent("nonsense"), None);
    }
}
