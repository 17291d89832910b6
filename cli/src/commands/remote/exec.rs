//! `koze exec` and `koze shell` on a server.

mod attend;

use std::process::ExitCode;

use koze_client::Session;
use koze_core::http::{StartProcess, TerminalSize};
use koze_core::{Code, Error, Result};

use self::attend::{Attended, attend, watch_signals};
use super::report_error;
use crate::args;
use crate::commands::programs::{CANNOT_RUN, KOZE_FAILED, NO_PROGRAM, choose_only_sandbox, start_shell};
use crate::commands::show;

/// Runs `koze exec`.
pub(super) fn run(session: &Session, args: &args::Exec) -> std::result::Result<ExitCode, ExitCode> {
    if args.tty && args.interactive && !has_terminal() {
        show::usage("standard input is not a terminal: leave out -t");
        return Err(ExitCode::from(KOZE_FAILED));
    }
    let program = StartProcess {
        argv: args.argv.clone(),
        env: args.env.iter().cloned().collect(),
        working_dir: args.workdir.clone(),
        terminal: args.tty.then(terminal_size),
        // Nothing is lost while this command is slow. Nobody reads what a detached program prints.
        wait_for_readers: !args.detach,
        label: None,
    };
    let watch = watch_signals().map_err(|error| report_failure(&error))?;
    let id = match session.start_process(&args.name, &program) {
        Ok(process) => process.id,
        Err(error) => return Err(report_start_error(session, &args.name, &error)),
    };
    if args.detach {
        // The ID first: the process runs, whatever becomes of the next request.
        show::out(&format!("{id}\n"));
        let closed = session.write_stdin(&args.name, &id, b"", true);
        closed.map_err(|error| report_failure(&error))?;
        return Ok(ExitCode::SUCCESS);
    }
    let attended = Attended {
        session: session.clone(),
        sandbox: args.name.clone(),
        id,
        is_interactive: args.interactive,
        has_terminal: args.tty,
        timeout: args.timeout,
    };
    attend(&attended, watch).map_err(|error| report_failure(&error))
}

/// Runs `koze shell`.
pub(super) fn run_shell(session: &Session, args: &args::Shell) -> std::result::Result<ExitCode, ExitCode> {
    if !has_terminal() {
        show::usage("standard input is not a terminal: use `koze exec -i`, which needs none");
        return Err(ExitCode::from(KOZE_FAILED));
    }
    let name = match &args.name {
        Some(name) => name.clone(),
        None => find_only_sandbox(session).map_err(|error| report_failure(&error))?,
    };
    let watch = watch_signals().map_err(|error| report_failure(&error))?;
    let process = start_shell(session, &name, terminal_size())
        .map_err(|error| report_start_error(session, &name, &error))?;
    let attended = Attended {
        session: session.clone(),
        sandbox: name,
        id: process.id,
        is_interactive: true,
        has_terminal: true,
        timeout: None,
    };
    attend(&attended, watch).map_err(|error| report_failure(&error))
}

/// Returns the name of the only sandbox of a session.
fn find_only_sandbox(session: &Session) -> Result<String> {
    let list = session.sandboxes()?.sandboxes;
    choose_only_sandbox(list.into_iter().map(|sandbox| sandbox.name).collect())
}

/// Shows why a program does not run, and returns the exit code for it.
fn report_start_error(session: &Session, name: &str, error: &Error) -> ExitCode {
    let code = match error.code {
        // It may be the sandbox that does not exist.
        Code::NotFound if session.describe_sandbox(name).is_ok() => NO_PROGRAM,
        Code::PermissionDenied => CANNOT_RUN,
        _ => KOZE_FAILED,
    };
    report_error(error);
    ExitCode::from(code)
}

fn report_failure(error: &Error) -> ExitCode {
    report_error(error);
    ExitCode::from(KOZE_FAILED)
}

#[cfg(unix)]
fn has_terminal() -> bool {
    crate::commands::terminal::has_terminal()
}

#[cfg(not(unix))]
fn has_terminal() -> bool {
    false
}

#[cfg(unix)]
fn terminal_size() -> TerminalSize {
    let (rows, columns) = crate::commands::terminal::size();
    TerminalSize { rows, columns }
}

#[cfg(not(unix))]
fn terminal_size() -> TerminalSize {
    TerminalSize { rows: 24, columns: 80 }
}
