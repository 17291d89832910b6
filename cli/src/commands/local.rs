//! The commands that run sandboxes on this machine. `elsewhere.rs` is their counterpart on systems other than Linux.

mod call;
mod cp;
mod demo;
mod destroy;
mod guard;
pub(super) mod local_session;
mod mcp;
mod prove;
mod sandboxes;
mod script;
mod secret;
mod snapshot;
mod supervise;
mod table;

use std::process::ExitCode;

use super::{add, new, project, show};
use crate::args::{Command, Format};

/// Runs one of these commands.
pub(super) fn run(command: &Command) -> ExitCode {
    let done = match command {
        Command::Call(args) => call::run(args),
        Command::Cp(args) => cp::run(args),
        Command::Sandboxes(args) => sandboxes::run(args),
        Command::Destroy(args) => destroy::run(args),
        Command::Snapshot(args) => snapshot::run(args),
        Command::Script(args) => script::run(args),
        Command::Secret(args) => secret::run(args),
        Command::Mcp(args) => mcp::run(args),
        Command::Demo(args) => demo::run(args),
        Command::Supervise(args) => Ok(supervise::run(args)),
        Command::Guard(args) => Ok(guard::run(args)),
        _ => unreachable!("the other commands run everywhere"),
    };
    done.unwrap_or_else(|code| code)
}

/// Runs `koze doctor --prove`.
pub(super) fn prove(format: Format) -> ExitCode {
    prove::run(format).unwrap_or_else(|code| code)
}
