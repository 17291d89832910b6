//! `koze sandboxes`, `koze inspect` and `koze destroy` on a server.

use std::process::ExitCode;

use koze_client::Session;
use koze_core::egress::describe_target;
use koze_core::http::{EgressEntry, EgressList, SandboxEntry, SandboxList};
use koze_core::sandbox::Status;

use super::report_error;
use crate::args::{self, ListFormat};
use crate::commands::call_lines::time;
use crate::commands::show;
use crate::commands::table::table;

/// How many entries of the egress journal a server returns at most.
const MAX_EGRESS: usize = 1000;

/// Runs `koze sandboxes`.
pub(super) fn list(session: &Session, args: &args::Sandboxes) -> Result<ExitCode, ExitCode> {
    if args.egress {
        let list = session.egress(MAX_EGRESS).map_err(|error| report_error(&error))?;
        show::out(&show_egress(&list, args.format));
        return Ok(ExitCode::SUCCESS);
    }
    let list = session.sandboxes().map_err(|error| report_error(&error))?;
    show::out(&show_list(&list, args.format));
    Ok(ExitCode::SUCCESS)
}

/// Returns the list for people or for programs.
pub(super) fn show_list(list: &SandboxList, format: ListFormat) -> String {
    match format {
        ListFormat::Json => to_json(list),
        ListFormat::Human if list.sandboxes.is_empty() => {
            "no sandboxes: `koze call` creates one on first use\n".to_owned()
        }
        ListFormat::Human => table(["SANDBOX", "IMAGE", "STATUS"], list.sandboxes.iter().map(to_cells)),
    }
}

fn to_cells(sandbox: &SandboxEntry) -> [String; 3] {
    let status = match sandbox.status {
        Status::Running => "running",
        Status::Sleeping => "sleeping",
    };
    [sandbox.name.clone(), sandbox.image.clone(), status.to_owned()]
}

/// Returns the egress journal for people or for programs.
fn show_egress(list: &EgressList, format: ListFormat) -> String {
    match format {
        ListFormat::Json => to_json(list),
        ListFormat::Human if list.egress.is_empty() => {
            "no sandbox or script has tried to reach a host\n".to_owned()
        }
        ListFormat::Human => {
            let head = ["TIME", "SANDBOX", "HOST", "ADDRESS", "DECISION", "RULE"];
            table(head, list.egress.iter().map(egress_cells))
        }
    }
}

fn egress_cells(entry: &EgressEntry) -> [String; 6] {
    let rule = match &entry.requested_within {
        Some(other) => format!("{}; {other} was requested", entry.rule),
        None => entry.rule.clone(),
    };
    [
        time(entry.time),
        entry.sandbox.clone(),
        describe_target(&entry.host, entry.port),
        entry.address.clone().unwrap_or_else(|| "-".to_owned()),
        if entry.allowed { "reached" } else { "refused" }.to_owned(),
        rule,
    ]
}

fn to_json(value: &impl serde::Serialize) -> String {
    let json = serde_json::to_string_pretty(value).expect("these are plain data");
    format!("{json}\n")
}

/// Runs `koze inspect`.
pub(super) fn inspect(session: &Session, args: &args::Inspect) -> Result<ExitCode, ExitCode> {
    let details = session.describe_sandbox(&args.name).map_err(|error| report_error(&error))?;
    show::out(&to_json(&details));
    Ok(ExitCode::SUCCESS)
}

/// Runs `koze destroy`.
pub(super) fn destroy(session: &Session, args: &args::Destroy) -> Result<ExitCode, ExitCode> {
    let names = if args.all {
        let list = session.sandboxes().map_err(|error| report_error(&error))?;
        list.sandboxes.into_iter().map(|sandbox| sandbox.name).collect()
    } else {
        args.names.clone()
    };
    let mut code = ExitCode::SUCCESS;
    for name in names {
        match session.destroy_sandbox(&name) {
            Ok(()) => show::out(&format!("destroyed {name}\n")),
            Err(error) => code = report_error(&error),
        }
    }
    Ok(code)
}
