//! Runs command lines with a shell.

use std::time::Duration;

use crate::error::{Code, Error, Result};
use crate::sandbox::{Command, Output, Program, Sandbox};
use crate::trace::within;

/// The maximum number of bytes of each stream that a model gets.
pub(crate) const MAX_OUTPUT: usize = 1024 * 1024;

/// Checks that a command can be passed to a program.
pub(crate) fn check(command: &str) -> Result<()> {
    if command.contains('\0') {
        return Err(Error::new(Code::InvalidInput, "`command` must not contain a NUL character"));
    }
    Ok(())
}

/// The paths that bash may have. `PATH` is not searched: it begins with a directory that the sandbox can write to.
const BASH: &[&str] = &["/bin/bash", "/usr/bin/bash", "/usr/local/bin/bash"];
/// The shell that every image has.
const SH: &str = "/bin/sh";

/// Runs a command with bash, or with sh if the image has no bash.
#[doc(hidden)]
pub async fn run<S: Sandbox>(
    sandbox: &S,
    command: &str,
    working_dir: &str,
    timeout: Duration,
) -> Result<Output> {
    check(command)?;
    run_with(sandbox, command, &[], working_dir, timeout).await
}

/// Runs a command in the same way, with arguments.
pub(crate) async fn run_with<S: Sandbox>(
    sandbox: &S,
    command: &str,
    arguments: &[&str],
    working_dir: &str,
    timeout: Duration,
) -> Result<Output> {
    let ran = with_shell(sandbox, command, arguments, working_dir, timeout);
    within!("exec" { timeout = timeout.as_secs() }, ran)
}

async fn with_shell<S: Sandbox>(
    sandbox: &S,
    command: &str,
    arguments: &[&str],
    working_dir: &str,
    timeout: Duration,
) -> Result<Output> {
    let mut last = None;
    for argv in shells(command, arguments) {
        let (working_dir, env) = (working_dir.to_owned(), Vec::new());
        let command = Command { argv, working_dir, env, timeout, max_output: MAX_OUTPUT };
        match sandbox.exec(command).await {
            // The image has no such shell. If it is the working directory that is missing, sh reports that too.
            Err(error) if error.code == Code::NotFound => last = Some(error),
            ran => return ran,
        }
    }
    Err(last.expect("there is at least one shell"))
}

/// Starts a command in the same way as a process, which the caller must attend.
pub(crate) async fn start<S: Sandbox>(
    sandbox: &S,
    command: &str,
    arguments: &[&str],
    working_dir: &str,
) -> Result<S::Process> {
    within!("start" {}, start_shell(sandbox, command, arguments, working_dir))
}

async fn start_shell<S: Sandbox>(
    sandbox: &S,
    command: &str,
    arguments: &[&str],
    working_dir: &str,
) -> Result<S::Process> {
    let mut last = None;
    for argv in shells(command, arguments) {
        // Its caller attends it: see `shell::stream` of workspaces.
        let program = Program { attended: true, ..Program::new(argv, working_dir) };
        match sandbox.start(program).await {
            Err(error) if error.code == Code::NotFound => last = Some(error),
            started => return started,
        }
    }
    Err(last.expect("there is at least one shell"))
}

/// Returns the ways to run a command: with bash at its possible paths, and with sh, which every image has.
fn shells(command: &str, arguments: &[&str]) -> impl Iterator<Item = Vec<String>> {
    // Without `--`, a command that begins with a dash would be read as options. The argument after it is the name that
    // the shell uses for itself in messages.
    let with = move |path: &str, options: &[&str], name: &str| -> Vec<String> {
        let argv = [&[path], options, &["-c", "--", command, name], arguments].concat();
        argv.into_iter().map(str::to_owned).collect()
    };
    let bash = BASH.iter().map(move |path| with(path, &["--noprofile", "--norc"], "bash"));
    bash.chain(std::iter::once(with(SH, &[], "sh")))
}

/// Drops the directories that the user could put programs into from `PATH`, and runs its argument.
pub(crate) const CLEAN_PATH: &str = include_str!("shell/clean_path.sh");

/// Runs a command in the same way, on a `PATH` without the directories that its user can write to. If the user can write to
/// all of them, as root can, `PATH` stays as it is.
pub(crate) async fn run_on_clean_path<S: Sandbox>(
    sandbox: &S,
    command: &str,
    working_dir: &str,
    timeout: Duration,
) -> Result<Output> {
    check(command)?;
    run_with(sandbox, CLEAN_PATH, &[command], working_dir, timeout).await
}
