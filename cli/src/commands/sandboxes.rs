//! `koze sandboxes`: lists the sandboxes on this machine and their network access.

mod egress;

use std::process::ExitCode;

#[cfg(namespaces)]
pub(super) use self::egress::read_egress;

use koze_core::SessionId;
use koze_core::sandbox::Status;
use serde_json::json;

use super::local_session::{self, LocalSession};
use super::show;
use crate::args::{self, ListFormat};
use crate::provider;
use crate::session::State;

/// A line of the list.
struct Row {
    session: String,
    name: String,
    image: String,
    status: Status,
}

pub(super) fn run(args: &args::Sandboxes) -> Result<ExitCode, ExitCode> {
    let session = LocalSession::find(&args.state.in_session(args.session.as_deref()))?;
    let only = args.session.is_some().then_some(&session.session);
    if args.egress {
        return egress::show(&session.state, only, args.format)
            .map_err(|error| local_session::failed(&error));
    }
    let rows = collect_rows(&session.state, only).map_err(|error| local_session::failed(&error))?;
    show::out(&match args.format {
        ListFormat::Json => in_json(&rows),
        ListFormat::Human => in_words(&rows),
    });
    Ok(ExitCode::SUCCESS)
}

/// Returns the rows. Does not create sessions.
fn collect_rows(state: &State, only: Option<&SessionId>) -> koze_core::Result<Vec<Row>> {
    let mut rows = Vec::new();
    for dir in state.sessions()? {
        let all = provider::list_sandboxes(&dir)?;
        let found = all.into_iter().filter(|(session, _)| only.is_none_or(|only| only == session));
        rows.extend(found.map(|(session, info)| Row {
            session: session.session().to_owned(),
            name: info.name.to_string(),
            image: info.profile,
            status: info.status,
        }));
    }
    rows.sort_by(|one, other| (&one.session, &one.name).cmp(&(&other.session, &other.name)));
    Ok(rows)
}

fn in_json(rows: &[Row]) -> String {
    let list: Vec<_> = rows
        .iter()
        .map(|row| json!({ "session": row.session, "name": row.name, "image": row.image, "status": row.status }))
        .collect();
    format!("{:#}\n", json!({ "sandboxes": list }))
}

fn in_words(rows: &[Row]) -> String {
    if rows.is_empty() {
        return "no sandboxes: `koze call` creates one on first use\n".to_owned();
    }
    let status = |row: &Row| match row.status {
        Status::Running => "running",
        Status::Sleeping => "sleeping",
    };
    let table: Vec<[&str; 4]> = std::iter::once(["SESSION", "SANDBOX", "IMAGE", "STATUS"])
        .chain(rows.iter().map(|row| [row.session.as_str(), &row.name, &row.image, status(row)]))
        .collect();
    let width = |column: usize| table.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let (session, name, image) = (width(0), width(1), width(2));
    let lines = table
        .iter()
        .map(|row| format!("{:session$}  {:name$}  {:image$}  {}", row[0], row[1], row[2], row[3]));
    lines.collect::<Vec<_>>().join("\n") + "\n"
}
