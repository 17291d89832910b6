//! Starts other programs.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};

use crate::Result;

/// Returns the cargo that runs this task, with the workspace as its directory.
pub(crate) fn cargo(root: &Path) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root);
    command
}

/// Runs `command` in this terminal. `missing` says what to do if the program is not installed.
pub(crate) fn status(command: &mut Command, missing: &str) -> Result<ExitStatus> {
    command.status().map_err(|error| not_started(command, &error, missing).into())
}

/// Returns the output of `command` without the last newline. Its standard error goes to this terminal.
pub(crate) fn stdout(command: &mut Command, missing: &str) -> Result<String> {
    let output =
        command.stderr(Stdio::inherit()).output().map_err(|error| not_started(command, &error, missing))?;
    if !output.status.success() {
        return Err(format!("`{}` failed: {}", line(command), output.status).into());
    }
    Ok(String::from_utf8(output.stdout)?.trim_end().to_owned())
}

/// Returns `PATH` with `first` prepended.
pub(crate) fn path_with(first: &Path) -> Result<OsString> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let all = std::iter::once(first.to_owned()).chain(std::env::split_paths(&path));
    Ok(std::env::join_paths(all)?)
}

/// Formats the command as a person would type it, for messages.
pub(crate) fn line(command: &Command) -> String {
    std::iter::once(command.get_program())
        .chain(command.get_args())
        .map(|word| word.to_string_lossy())
        .collect::<Vec<_>>()
        .join(" ")
}

fn not_started(command: &Command, error: &std::io::Error, missing: &str) -> String {
    let program = command.get_program().to_string_lossy();
    if error.kind() == ErrorKind::NotFound {
        format!("`{program}` was not found: {missing}")
    } else {
        format!("`{program}` could not be started: {error}")
    }
}
