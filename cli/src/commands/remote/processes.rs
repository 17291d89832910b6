//! `koze ps`, `koze logs` and `koze kill` on a server.

use std::io::{self, ErrorKind};
use std::process::ExitCode;

use koze_client::Session;
use koze_core::http::{ErrorDetails, ProcessEntry, ProcessEvent};
use koze_core::sandbox::process::Stream;
use koze_core::{Code, Error, Result};

use super::{report_error, sandboxes};
use crate::args;
use crate::commands::process_table::process_table;
use crate::commands::show;
use crate::prefix;

/// Runs `koze ps`.
pub(super) fn list(session: &Session, args: &args::Ps) -> std::result::Result<ExitCode, ExitCode> {
    if args.all_projects {
        return Err(show::usage(
            "--all-projects lists the packages of this machine: leave it out with --url",
        ));
    }
    let text = match &args.name {
        Some(name) => session.processes(name).map(|list| {
            process_table(&list.processes, args.format)
                .unwrap_or_else(|| format!("the sandbox `{name}` has no processes\n"))
        }),
        None => session.sandboxes().map(|list| sandboxes::show_list(&list, args.format)),
    };
    show::out(&text.map_err(|error| report_error(&error))?);
    Ok(ExitCode::SUCCESS)
}

/// Runs `koze logs`.
pub(super) fn logs(session: &Session, args: &args::Logs) -> std::result::Result<ExitCode, ExitCode> {
    let events = find_process(session, &args.name, args.id.as_deref())
        .and_then(|process| session.process_events(&args.name, &process.id, 0, args.follow))
        .map_err(|error| report_error(&error))?;
    for event in events {
        match event.and_then(print_event).map_err(|error| report_error(&error))? {
            Ok(()) => {}
            // The reader needs no more.
            Err(error) if error.kind() == ErrorKind::BrokenPipe => break,
            Err(error) => return Err(show::failure(&format!("the output cannot be written: {error}"))),
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints what an event reports.
fn print_event(event: ProcessEvent) -> Result<io::Result<()>> {
    match event {
        ProcessEvent::Dropped(dropped) => {
            show::err(&format!("koze: {} earlier bytes were dropped\n", dropped.bytes));
        }
        ProcessEvent::Exit(_) => {}
        ProcessEvent::Error(details) => return Err(to_error(details)),
        ProcessEvent::Stdout(text) => return Ok(show::print_output(&text.into_bytes()?, Stream::Stdout)),
        ProcessEvent::Stderr(text) => return Ok(show::print_output(&text.into_bytes()?, Stream::Stderr)),
    }
    Ok(Ok(()))
}

/// Returns the error that an event reports.
pub(super) fn to_error(details: ErrorDetails) -> Error {
    Error::new(serde_json::from_value(details.code.into()).unwrap_or(Code::Internal), details.message)
}

/// Runs `koze kill`.
pub(super) fn kill(session: &Session, args: &args::Kill) -> ExitCode {
    let mut code = ExitCode::SUCCESS;
    for id in &args.ids {
        let sent = find_process(session, &args.name, Some(id)).and_then(|process| match process.exit_code {
            None => session.signal_process(&args.name, &process.id, args.signal),
            Some(code) => {
                let message =
                    format!("the process {} has ended already, with the exit code {code}", process.id);
                Err(Error::new(Code::NotFound, message))
            }
        });
        match sent {
            Ok(()) => show::out(&format!("sent the signal {} to {id}\n", args.signal.number())),
            Err(error) => code = report_error(&error),
        }
    }
    code
}

/// Returns the process whose ID begins with a text, or the one that was started last.
fn find_process(session: &Session, name: &str, id: Option<&str>) -> Result<ProcessEntry> {
    let mut processes = session.processes(name)?.processes;
    let found = match id {
        Some(id) => prefix::find_process(processes, |process| &process.id, id)?,
        None => processes.pop(),
    };
    found.ok_or_else(|| {
        let which = id.map_or_else(|| "processes".to_owned(), |id| format!("process `{id}`"));
        let message =
            format!("the sandbox `{name}` has no {which}: `koze ps {name} --url …` lists those that it has");
        Error::new(Code::NotFound, message)
    })
}
