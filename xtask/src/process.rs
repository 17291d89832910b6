//! Starting other programs.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};

use crate::Result;

/// The cargo that runs this task, in the workspace.
pub(crate) fn cargo(root: &Path) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root);
    command
}

/// Runs `command` on this terminal. `missing` says what to do when the program is not installed.
pub(crate) fn status(command: &mut Command, missing: &str) -> Result<ExitStatus> {
    command.status().map_err(|error| not_started(command, &error, missing).into())
}

/// What `command` prints, without the last newline; its messages go to this terminal.
pub(crate) fn stdout(command: &mut Command, missing: &str) -> Result<String> {
    let output =
        command.stderr(Stdio::inherit()).output().map_err(|error| not_started(command, &error, missing))?;
    if !output.status.success() {
        return Err(format!("`{}` failed: {}", line(command), output.status).into());
    }
    Ok(String::from_utf8(output.stdout)?.trim_end().to_owned())
}

/// `PATH` with `first` in front.
pub(crate) fn path_with(first: &Path) -> Result<OsString> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let all = std::iter::once(first.to_owned()).chain(std::env::split_paths(&path));
    Ok(std::env::join_paths(all)?)
}

/// The command as a person would type it, for messages.
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
