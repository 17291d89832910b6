//! The commands that run sandboxes on this machine. `elsewhere.rs` is their counterpart on Windows.

mod call;
mod cp;
#[cfg(namespaces)]
mod demo;
mod destroy;
mod exec;
#[cfg(namespaces)]
mod guard;
#[cfg(namespaces)]
mod image;
mod inspect;
mod kill;
#[cfg(namespaces)]
mod learn;
pub(super) mod local_session;
mod log;
mod logs;
mod mcp;
#[cfg(namespaces)]
mod prove;
mod ps;
#[cfg(not(namespaces))]
mod refused;
mod run;
mod sandboxes;
mod script;
mod secret;
mod serve;
mod size;
mod snapshot;
mod stop;
mod supervise;
mod ui;

use std::process::ExitCode;

#[cfg(not(namespaces))]
pub(super) use self::refused::{learn, prove};
#[cfg(namespaces)]
use super::{add, new};
use super::{
    call_input, call_lines, partial, process_table, programs, project, show, sides, since, snapshot_list,
    table, terminal, time, with_wrangler,
};
use crate::args::Command;
#[cfg(namespaces)]
use crate::args::{Format, Learn};

/// Runs one of these commands.
pub(super) fn run(command: &Command) -> ExitCode {
    let done = match command {
        Command::Call(args) => call::run(args),
        Command::Cp(args) => cp::run(args),
        Command::Exec(args) => exec::run(args),
        Command::Shell(args) => exec::run_shell(args),
        Command::Ps(args) => ps::run(args),
        Command::Logs(args) => logs::run(args),
        Command::Kill(args) => kill::run(args),
        Command::Stop(args) => stop::run(args),
        Command::Inspect(args) => inspect::run(args),
        Command::Sandboxes(args) => sandboxes::run(args),
        Command::Log(args) => log::run(args),
        Command::Destroy(args) => destroy::run(args),
        Command::Snapshot(args) => snapshot::run(args),
        Command::Script(args) => script::run(args),
        Command::Secret(args) => secret::run(args),
        Command::Mcp(args) => mcp::run(args),
        Command::Serve(args) => serve::run(args),
        Command::Ui(args) => ui::run(args),
        Command::Run(args) => run::run(args),
        Command::Supervise(args) => Ok(supervise::run(args)),
        #[cfg(namespaces)]
        Command::Image(args) => image::run(args),
        #[cfg(namespaces)]
        Command::Demo(args) => demo::run(args),
        #[cfg(namespaces)]
        Command::Guard(args) => Ok(guard::run(args)),
        #[cfg(not(namespaces))]
        Command::Image(_) => Err(refused::image()),
        #[cfg(not(namespaces))]
        Command::Demo(_) => Err(refused::demo()),
        #[cfg(not(namespaces))]
        Command::Guard(_) => Err(refused::guard()),
        _ => unreachable!("the other commands run everywhere"),
    };
    done.unwrap_or_else(|code| code)
}

/// Runs `koze doctor --prove`.
#[cfg(namespaces)]
pub(super) fn prove(format: Format) -> ExitCode {
    prove::run(format).unwrap_or_else(|code| code)
}

/// Runs `koze egress learn`.
#[cfg(namespaces)]
pub(super) fn learn(args: &Learn) -> ExitCode {
    learn::run(args).unwrap_or_else(|code| code)
}
