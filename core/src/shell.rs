//! Runs command lines with a shell.

mod streaming;

use std::time::Duration;

pub(crate) use self::streaming::{run_reporting, run_streaming};
use crate::error::{Code, Error, Result};
use crate::maybe_send::{MaybeSend, MaybeSync};
use crate::sandbox::{Command, Output, Program, Sandbox};
use crate::trace::within;

/// The maximum number of bytes of each stream that a model gets.
pub(crate) const MAX_OUTPUT: usize = 1024 * 1024;

/// The maximum length of a command in bytes. Linux gives a program 2 MiB for its arguments and environment together.
pub(crate) const MAX_COMMAND: usize = 1 << 20;
/// The maximum length of one argument of a program in bytes, which Linux sets.
const MAX_ARGUMENT: usize = 131_071;

/// Checks that a command can be passed to a shell.
pub(crate) fn check_command(command: &str) -> Result<()> {
    if command.contains('\0') {
        return Err(Error::new(Code::InvalidInput, "`command` must not contain a NUL character"));
    }
    if command.len() > MAX_COMMAND {
        let message = format!(
            "`command` has {} bytes: a command can have at most {MAX_COMMAND}. Write it to a file, in several calls if it is \
             long, and run that file: `bash FILE`",
            command.len()
        );
        return Err(Error::new(Code::TooLarge, message));
    }
    Ok(())
}

/// Checks that a program and its arguments can be run.
pub(crate) fn check_argv(argv: &[String]) -> Result<()> {
    let message = match argv.first() {
        None => "`argv` is empty: its first text is the program",
        Some(program) if program.is_empty() => "the first text of `argv` is empty: it is the program",
        _ if argv.iter().any(|argument| argument.contains('\0')) => "`argv` must not contain a NUL character",
        _ if argv.iter().any(|argument| argument.len() > MAX_ARGUMENT) => {
            let message = format!(
                "a text of `argv` can have at most {MAX_ARGUMENT} bytes: write a longer one to a file"
            );
            return Err(Error::new(Code::TooLarge, message));
        }
        _ => return Ok(()),
    };
    Err(Error::new(Code::InvalidInput, message))
}

/// The paths that bash may have. `PATH` is not searched: it begins with a directory that the sandbox can write to.
const BASH: [&str; 3] = ["/bin/bash", "/usr/bin/bash", "/usr/local/bin/bash"];
/// The shell that every image has.
const SH: &str = "/bin/sh";

/// A command, and what it runs with.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ShellCommand<'a> {
    /// What runs.
    pub(crate) line: Line<'a>,
    /// The working directory, as an absolute path.
    pub(crate) working_dir: &'a str,
    /// Variables in addition to the sandbox's own.
    pub(crate) env: &'a [(String, String)],
    /// What it reads from its standard input.
    pub(crate) stdin: Option<&'a str>,
    /// After this time it is killed.
    pub(crate) timeout: Duration,
}

/// What a [`ShellCommand`] runs.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Line<'a> {
    /// A command line, with bash, or with sh if the image has no bash.
    Shell {
        /// A script that ends by running the shell again, with its own arguments after `-c --`.
        prelude: Option<&'a str>,
        /// The command line.
        command: &'a str,
    },
    /// A program and its arguments, without a shell.
    Program(&'a [String]),
}

impl Line<'_> {
    /// Returns it as a text for people.
    pub(crate) fn to_text(self) -> String {
        match self {
            Line::Shell { command, .. } => command.to_owned(),
            Line::Program(argv) => argv.join(" "),
        }
    }
}

impl<'a> ShellCommand<'a> {
    /// Creates one of a command line.
    pub(crate) fn new(command: &'a str, working_dir: &'a str, timeout: Duration) -> Self {
        let line = Line::Shell { prelude: None, command };
        ShellCommand { line, working_dir, env: &[], stdin: None, timeout }
    }

    /// Returns it with a prelude before its command line.
    pub(crate) fn after(self, prelude: Option<&'a str>) -> Self {
        let line = match self.line {
            Line::Shell { command, .. } => Line::Shell { prelude, command },
            Line::Program(argv) => Line::Program(argv),
        };
        ShellCommand { line, ..self }
    }

    fn check(&self) -> Result<()> {
        match self.line {
            Line::Shell { command, .. } => check_command(command),
            Line::Program(_) => Ok(()),
        }
    }

    /// Returns the ways to run it, in the order in which they are tried.
    fn argvs(&self) -> Vec<Vec<String>> {
        match self.line {
            Line::Shell { prelude, command } => shell_argvs(prelude, command).collect(),
            Line::Program(argv) => vec![argv.to_vec()],
        }
    }

    /// Returns the process to start for arguments.
    fn to_program(self, argv: Vec<String>) -> Program {
        Program { env: self.env.to_vec(), ..Program::new(argv, self.working_dir) }
    }
}

/// Runs a command with bash, or with sh if the image has no bash.
///
/// # Errors
/// [`Code::InvalidInput`] if the command has a NUL character, [`Code::TooLarge`] if it is longer than 1 MiB, and the errors of
/// the sandbox.
#[doc(hidden)]
pub async fn run<S: Sandbox>(
    sandbox: &S,
    command: &str,
    working_dir: &str,
    timeout: Duration,
) -> Result<Output> {
    run_command(sandbox, &ShellCommand::new(command, working_dir, timeout)).await
}

/// Runs a command that reads nothing.
pub(crate) async fn run_command<S: Sandbox>(sandbox: &S, command: &ShellCommand<'_>) -> Result<Output> {
    command.check()?;
    within!("exec" { timeout = command.timeout.as_secs() }, exec_first(sandbox, command))
}

async fn exec_first<S: Sandbox>(sandbox: &S, command: &ShellCommand<'_>) -> Result<Output> {
    let mut last = None;
    for argv in command.argvs() {
        let (working_dir, env) = (command.working_dir.to_owned(), command.env.to_vec());
        let wanted = Command { argv, working_dir, env, timeout: command.timeout, max_output: MAX_OUTPUT };
        match sandbox.exec(wanted).await {
            // The image has no such shell. If it is the working directory that is missing, sh reports that too.
            Err(error) if error.code == Code::NotFound => last = Some(error),
            ran => return ran,
        }
    }
    Err(last.expect("there is at least one way"))
}

/// Starts a command as a process, which the caller must attend.
async fn start_attended<S: Sandbox>(sandbox: &S, command: &ShellCommand<'_>) -> Result<S::Process> {
    // Its caller attends it: see `streaming`.
    start_with(sandbox, command, |program| Program { attended: true, ..program }).await
}

/// Starts a command as a process that keeps running, with what `adjust` changes.
pub(crate) async fn start_with<S: Sandbox>(
    sandbox: &S,
    command: &ShellCommand<'_>,
    adjust: impl Fn(Program) -> Program + MaybeSend + MaybeSync,
) -> Result<S::Process> {
    command.check()?;
    let start = async {
        let mut last = None;
        for argv in command.argvs() {
            match sandbox.start(adjust(command.to_program(argv))).await {
                Err(error) if error.code == Code::NotFound => last = Some(error),
                started => return started,
            }
        }
        Err(last.expect("there is at least one way"))
    };
    within!("start" {}, start)
}

/// Returns the ways to run a command: with bash at its possible paths, and with sh, which every image has.
fn shell_argvs(prelude: Option<&str>, command: &str) -> impl Iterator<Item = Vec<String>> {
    let (script, parts) = split_command(command);
    // Without `--`, a command that begins with a dash would be read as options. The argument after it is the name that
    // the shell uses for itself in messages.
    let with = move |path: &str, options: &[&str], name: &str| -> Vec<String> {
        let prelude = prelude.map(|prelude| [prelude, name]);
        let prelude = prelude.as_ref().map_or(&[][..], |prelude| prelude);
        let argv = [&[path], options, &["-c", "--"], prelude, &[script, name], &parts].concat();
        argv.into_iter().map(str::to_owned).collect()
    };
    let bash = BASH.map(|path| with(path, &["--noprofile", "--norc"], "bash"));
    bash.into_iter().chain(std::iter::once(with(SH, &[], "sh")))
}

/// Joins its arguments, and runs them as the shell would run one script. Neither file nor variable is left behind, standard
/// input stays as it is, and the lines keep their numbers.
const JOINED: &str = r#"eval "set --; $1$2${3-}${4-}${5-}${6-}${7-}${8-}${9-}""#;
/// The number of arguments that `JOINED` joins.
const MAX_PARTS: usize = 9;
// A part ends at the boundary of a character, which has at most four bytes.
const _: () = assert!(MAX_COMMAND <= MAX_PARTS * (MAX_ARGUMENT - 3));

/// Returns the script that runs a command, and its arguments. A command that is too long for one argument is passed in parts.
fn split_command(command: &str) -> (&str, Vec<&str>) {
    if command.len() <= MAX_ARGUMENT {
        return (command, Vec::new());
    }
    let mut parts = Vec::new();
    let mut rest = command;
    while !rest.is_empty() {
        let (part, after) = rest.split_at(rest.floor_char_boundary(MAX_ARGUMENT));
        parts.push(part);
        rest = after;
    }
    (JOINED, parts)
}

/// A prelude that drops the directories that the user could put programs into from `PATH`. If the user can write to all of
/// them, as root can, `PATH` stays as it is.
pub(crate) const CLEAN_PATH: &str = include_str!("shell/clean_path.sh");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_commands_in_parts() {
        for short in ["", "echo é", &"x".repeat(MAX_ARGUMENT)] {
            assert_eq!(split_command(short), (short, Vec::new()));
        }
        // Every character of the longest command lies on a boundary.
        for character in ["x", "é", "日", "😀"] {
            let long = format!("x{}", character.repeat((MAX_COMMAND - 1) / character.len()));
            check_command(&long).unwrap();
            let (script, parts) = split_command(&long);
            assert_eq!(script, JOINED);
            assert_eq!(parts.concat(), long);
            assert!((2..=MAX_PARTS).contains(&parts.len()), "{}", parts.len());
            assert!(parts.iter().all(|part| part.len() <= MAX_ARGUMENT));
        }
        let error = check_command(&"x".repeat(MAX_COMMAND + 1)).unwrap_err();
        assert_eq!(error.code, Code::TooLarge);
        assert!(error.message.contains("1048577 bytes") && error.message.contains("1048576"), "{error}");
    }
}
