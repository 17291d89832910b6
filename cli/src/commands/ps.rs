//! `koze ps`: lists the sandboxes on this machine and what they use, or the processes of one.

mod projects;

use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use koze_core::sandbox::Status;
use koze_core::{Result, SessionId};
use serde_json::{Value, json};

use super::inspect::{to_millis, to_time};
use super::local_session::{self, LocalSession};
use super::process_table::process_table;
use super::show;
use super::size::format_bytes;
use super::table::table;
use crate::args::{self, ListFormat};
use crate::provider::{self, Measured, Surveyed};
use crate::session::{Client, State};

pub(super) fn run(args: &args::Ps) -> std::result::Result<ExitCode, ExitCode> {
    if args.all_projects {
        return projects::list(args);
    }
    let session = LocalSession::find(&args.state.in_session(args.session.as_deref()))?;
    let text = if let Some(name) = &args.name {
        local_session::wait(list_processes(&session, name, args.format))?
    } else {
        let only = args.session.is_some().then_some(&session.session);
        let rows = local_session::wait(collect_rows(&session.state, only))?;
        rows.map(|rows| show_rows(&rows, args.format))
    };
    show::out(&text.map_err(|error| local_session::failed(&error))?);
    Ok(ExitCode::SUCCESS)
}

/// A sandbox of the list.
struct Row {
    sandbox: Surveyed,
    /// What it uses, if it runs in the supervisor of its session.
    measured: Option<Measured>,
}

/// Returns the sandboxes of a state directory. Starts nothing.
async fn collect_rows(state: &State, only: Option<&SessionId>) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for dir in state.sessions()? {
        let mut sandboxes = provider::survey_sandboxes(&dir)?;
        sandboxes.retain(|sandbox| only.is_none_or(|only| *only == sandbox.id.session));
        let running = sandboxes.iter().find(|sandbox| sandbox.status == Status::Running);
        let mut measured = match running {
            Some(running) => Client::new(state.clone(), running.id.session.clone()).measure().await?,
            None => Vec::new(),
        };
        for sandbox in sandboxes {
            let name = sandbox.id.name.as_str();
            let place = measured.iter().position(|measured| measured.name == name);
            let measured = place.map(|place| measured.swap_remove(place));
            rows.push(Row { sandbox, measured });
        }
    }
    rows.sort_by(|one, other| sort_key(&one.sandbox).cmp(&sort_key(&other.sandbox)));
    Ok(rows)
}

fn sort_key(sandbox: &Surveyed) -> (&str, &str) {
    (sandbox.id.session.session(), sandbox.id.name.as_str())
}

fn show_rows(rows: &[Row], format: ListFormat) -> String {
    match format {
        ListFormat::Json => {
            let list: Vec<_> = rows.iter().map(to_json).collect();
            format!("{:#}\n", json!({ "sandboxes": list }))
        }
        ListFormat::Human if rows.is_empty() => {
            "no sandboxes: `koze call` creates one on first use\n".to_owned()
        }
        ListFormat::Human => table(HEAD, rows.iter().map(to_cells)),
    }
}

fn to_json(row: &Row) -> Value {
    let Row { sandbox, measured } = row;
    let measured = measured.as_ref();
    let last_call = measured.map_or(sandbox.used, |measured| now() - to_seconds(measured.idle));
    json!({
        "session": sandbox.id.session.session(),
        "name": sandbox.id.name.as_str(),
        "image": sandbox.settings.profile.name,
        "status": sandbox.status,
        "created": sandbox.created.map(to_time),
        "last_call": to_time(last_call),
        "memory_bytes": measured.and_then(|measured| measured.memory),
        "processor_time_ms": measured.and_then(|measured| measured.processor_time).map(to_millis),
        "disk_bytes": measured.and_then(|measured| measured.disk),
        "ports": measured.map(|measured| &measured.ports),
        "in_use": measured.map(|measured| measured.is_in_use),
        "sleeps_in_ms": measured.and_then(|measured| measured.sleeps_in).map(to_millis),
    })
}

const HEAD: [&str; 11] = [
    "SESSION",
    "SANDBOX",
    "IMAGE",
    "STATUS",
    "AGE",
    "LAST CALL",
    "MEMORY",
    "CPU TIME",
    "DISK",
    "PORTS",
    "SLEEPS IN",
];

/// Returns the cells of a sandbox. A cell is empty if its value is unknown.
fn to_cells(row: &Row) -> [String; 11] {
    let Row { sandbox, measured } = row;
    let measured = measured.as_ref();
    let status = match sandbox.status {
        Status::Running => "running",
        Status::Sleeping => "sleeping",
    };
    let last_call = match measured {
        Some(measured) if measured.is_in_use => "now".to_owned(),
        Some(measured) => format_ago(to_seconds(measured.idle)),
        None => format_ago(now() - sandbox.used),
    };
    let ports = |measured: &Measured| {
        let ports: Vec<_> = measured.ports.iter().map(ToString::to_string).collect();
        ports.join(",")
    };
    let sleeps_in = |measured: &Measured| Some(format_seconds(to_seconds(measured.sleeps_in?)));
    [
        sandbox.id.session.session().to_owned(),
        sandbox.id.name.to_string(),
        sandbox.settings.profile.name.clone(),
        status.to_owned(),
        sandbox.created.map(|created| format_seconds(now() - created)).unwrap_or_default(),
        last_call,
        measured.and_then(|measured| measured.memory).map(format_bytes).unwrap_or_default(),
        measured.and_then(|measured| measured.processor_time).map(format_cpu).unwrap_or_default(),
        measured.and_then(|measured| measured.disk).map(format_bytes).unwrap_or_default(),
        measured.map(ports).unwrap_or_default(),
        measured.and_then(sleeps_in).unwrap_or_default(),
    ]
}

/// Lists the processes of a sandbox. One that sleeps has none.
async fn list_processes(session: &LocalSession, name: &str, format: ListFormat) -> Result<String> {
    let sandbox = session.survey(name)?;
    let lines = match sandbox.status {
        Status::Running => session.client().processes(name).await?,
        Status::Sleeping => Vec::new(),
    };
    Ok(process_table(&lines, format).unwrap_or_else(|| {
        let status = if sandbox.status == Status::Sleeping { ", because it is asleep" } else { "" };
        format!("the sandbox `{name}` has no processes{status}: `koze exec` and some tools start them\n")
    }))
}

fn now() -> i64 {
    to_seconds(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
}

fn to_seconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_secs()).unwrap_or(i64::MAX)
}

fn format_ago(seconds: i64) -> String {
    format!("{} ago", format_seconds(seconds))
}

/// Returns a time with its two largest units.
fn format_seconds(seconds: i64) -> String {
    let seconds = seconds.max(0);
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        3600..86_400 => format!("{}h{:02}m", seconds / 3600, seconds % 3600 / 60),
        _ => format!("{}d{:02}h", seconds / 86_400, seconds % 86_400 / 3600),
    }
}

/// Returns a processor time with tenths of seconds.
fn format_cpu(time: Duration) -> String {
    format!("{}.{}s", time.as_secs(), time.subsec_millis() / 100)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        let times = [-5, 0, 59, 60, 3599, 3600, 86_399, 86_400, 90_000].map(format_seconds);
        assert_eq!(times, ["0s", "0s", "59s", "1m00s", "59m59s", "1h00m", "23h59m", "1d00h", "1d01h"]);
        assert_eq!(format_cpu(Duration::from_millis(1290)), "1.2s");
    }
}
