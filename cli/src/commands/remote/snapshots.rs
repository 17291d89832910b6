//! `koze snapshot` on a server.

use std::process::ExitCode;

use koze_client::Session;
use koze_client::http::{CreateSnapshot, RestoreSnapshot};
use koze_core::Result;

use super::report_error;
use crate::args::{self, SnapshotAction};
use crate::commands::{show, snapshot_list};

/// Runs `koze snapshot`.
pub(super) fn run(session: &Session, args: &args::Snapshot) -> std::result::Result<ExitCode, ExitCode> {
    let text = match &args.action {
        SnapshotAction::Export { .. } | SnapshotAction::Import { .. } => {
            let why = "--url: a server neither exports nor imports snapshots: in a Worker, use `export` and `import` of \
                       `workspace.snapshot()`, and on this machine the command without --url";
            return Err(show::usage(why));
        }
        SnapshotAction::Rm { ids, .. } => return remove(session, ids),
        action => perform(session, action),
    };
    show::out(&text.map_err(|error| report_error(&error))?);
    Ok(ExitCode::SUCCESS)
}

/// Returns what the command prints.
fn perform(session: &Session, action: &SnapshotAction) -> Result<String> {
    let workspace = action.place().workspace.clone();
    match action {
        SnapshotAction::Create { .. } => {
            let taken = session.create_snapshot(&CreateSnapshot { workspace, sandbox: None })?;
            Ok(format!("{}\n", taken.id))
        }
        SnapshotAction::List { format, .. } => {
            let list = session.snapshots(workspace.as_deref())?;
            Ok(snapshot_list::show(&list.snapshots, *format))
        }
        SnapshotAction::Restore { id, .. } => {
            let restored = session.restore_snapshot(id, &RestoreSnapshot { workspace, session: None })?;
            Ok(format!("{}\n", restored.sandbox))
        }
        SnapshotAction::Branch { id, .. } => {
            let branch = session.branch_snapshot(id, &RestoreSnapshot { workspace, session: None })?;
            Ok(format!("{}\n", branch.sandbox))
        }
        _ => unreachable!("the caller has handled the other actions"),
    }
}

/// Removes snapshots up to the first that does not exist.
fn remove(session: &Session, ids: &[String]) -> std::result::Result<ExitCode, ExitCode> {
    for id in ids {
        session.remove_snapshot(id).map_err(|error| report_error(&error))?;
        show::out(&format!("removed {id}\n"));
    }
    Ok(ExitCode::SUCCESS)
}
