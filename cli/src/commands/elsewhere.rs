//! The commands that run sandboxes on this machine, on systems other than Linux: each says what to use instead.

use std::process::ExitCode;

use super::show;
use crate::args::{Command, Format, Learn};

/// Runs one of these commands.
pub(super) fn run(command: &Command) -> ExitCode {
    let name = match command {
        Command::Call(_) => "call",
        Command::Cp(_) => "cp",
        Command::Exec(_) => "exec",
        Command::Shell(_) => "shell",
        Command::Ps(_) => "ps",
        Command::Logs(_) => "logs",
        Command::Kill(_) => "kill",
        Command::Stop(_) => "stop",
        Command::Inspect(_) => "inspect",
        Command::Sandboxes(_) => "sandboxes",
        Command::Log(_) => "log",
        Command::Destroy(_) => "destroy",
        Command::Image(_) => "image",
        Command::Snapshot(_) => "snapshot",
        Command::Script(_) => "script",
        Command::Secret(_) => "secret",
        Command::Mcp(_) => "mcp",
        Command::Serve(_) => "serve",
        Command::Ui(_) => "ui",
        Command::Run(_) => "run",
        Command::Demo(_) => "demo",
        Command::Supervise(_) => "supervise",
        Command::Guard(_) => "guard",
        _ => unreachable!("the other commands run everywhere"),
    };
    refuse_command(name)
}

/// Runs `koze doctor --prove`.
pub(super) fn prove(_: Format) -> ExitCode {
    refuse_command("doctor --prove")
}

/// Runs `koze egress learn`.
pub(super) fn learn(_: &Learn) -> ExitCode {
    refuse_command("egress learn")
}

fn refuse_command(command: &str) -> ExitCode {
    show::failure(&format!(
        "`koze {command}` works with sandboxes on this machine, which need Linux: run `koze dev`, which runs sandboxes in containers with Docker, or use those of a server with `--url`"
    ))
}
