//! `koze snapshot`: snapshots of the workspaces on this machine.

mod files;

use std::fmt::Write as _;
use std::process::ExitCode;

use koze_core::http::SnapshotEntry;
use koze_core::tool::{Content, Reply};
use koze_core::workspace::{SnapshotId, WorkspaceSnapshots};
use koze_core::{Code, Error, Profiles, Result};
use serde_json::{Value, json};

use super::local_session::{self, LocalSession};
use super::{show, snapshot_list};
use crate::args::{self, ListFormat, SnapshotAction, SnapshotArgs};
use crate::provider;

pub(super) fn run(args: &args::Snapshot) -> std::result::Result<ExitCode, ExitCode> {
    let action = &args.action;
    let target = Target::find(action.place())?;
    let done = local_session::wait(async {
        match action {
            SnapshotAction::Create { .. } => target.call_tool("snapshot", json!({}), "snapshot").await,
            SnapshotAction::Restore { id, .. } => {
                target.call_tool("restore", json!({ "snapshot": id }), "workspace").await
            }
            SnapshotAction::Branch { id, .. } => {
                target.call_tool("branch", json!({ "snapshot": id }), "workspace").await
            }
            SnapshotAction::List { format, .. } => target.list_snapshots(*format).await,
            SnapshotAction::Export { id, file, .. } => {
                files::export(&target.open_snapshots()?, &SnapshotId::new(id)?, file).await
            }
            SnapshotAction::Import { file, .. } => files::import(&target.open_snapshots()?, file).await,
            SnapshotAction::Rm { ids, .. } => target.remove_snapshots(ids).await,
        }
    })?;
    match done {
        Ok(text) => {
            show::out(&text);
            Ok(ExitCode::SUCCESS)
        }
        Err(error) => Err(local_session::failed(&error)),
    }
}

/// The workspace of a session.
struct Target {
    session: LocalSession,
    profiles: Profiles,
    workspace: String,
}

impl Target {
    fn find(place: &SnapshotArgs) -> std::result::Result<Self, ExitCode> {
        let session = LocalSession::find(&place.session)?;
        let profiles = local_session::profiles(&place.session)?;
        let workspace = choose_workspace(&profiles, place.workspace.as_deref());
        let workspace = workspace.map_err(|error| local_session::failed(&error))?;
        Ok(Target { session, profiles, workspace })
    }

    /// Calls a tool of the workspace in the session's supervisor. Returns a text of its result as a line.
    async fn call_tool(&self, operation: &str, input: Value, key: &str) -> Result<String> {
        let tool = format!("workspace__{}__{operation}", self.workspace);
        let client = self.session.client().named("koze snapshot");
        let reply = client.call(self.profiles.clone(), Some("workspace"), &tool, input).await?;
        match reply {
            Reply { content: Content::Json(result), .. } if result[key].is_string() => {
                Ok(format!("{}\n", result[key].as_str().unwrap_or_default()))
            }
            _ => Err(Error::new(Code::Internal, "the tool has an unexpected result")),
        }
    }

    /// Returns the snapshots. This starts no sandbox, and needs no supervisor.
    fn open_snapshots(&self) -> Result<WorkspaceSnapshots> {
        let LocalSession { state, session } = &self.session;
        state.make()?;
        provider::open_snapshots(&state.sandboxes(session), session, &self.profiles, &self.workspace)
    }

    async fn list_snapshots(&self, format: ListFormat) -> Result<String> {
        // Listing does not create a session.
        let known = self.session.state.has(&self.session.session);
        let list = if known { self.open_snapshots()?.list().await? } else { Vec::new() };
        let now = u64::try_from(chrono::Utc::now().timestamp_millis()).unwrap_or_default();
        let list: Vec<_> = list.iter().map(|snapshot| SnapshotEntry::new(snapshot, now)).collect();
        Ok(snapshot_list::show(&list, format))
    }

    async fn remove_snapshots(&self, ids: &[String]) -> Result<String> {
        let ids: Vec<SnapshotId> = ids.iter().map(SnapshotId::new).collect::<Result<_>>()?;
        let snapshots = self.open_snapshots()?;
        let mut text = String::new();
        for id in ids {
            if !snapshots.remove(&id).await? {
                show::out(&text);
                let message = format!("the workspace `{}` has no snapshot `{id}`", self.workspace);
                return Err(Error::new(Code::NotFound, message));
            }
            let _ = writeln!(text, "removed {id}");
        }
        Ok(text)
    }
}

/// Returns the workspace with this name, or the only one that has snapshots.
fn choose_workspace(profiles: &Profiles, name: Option<&str>) -> Result<String> {
    let all = profiles.list().iter().filter_map(koze_core::provider::Profile::served_workspace);
    let names: Vec<String> =
        all.filter(|config| config.snapshot.is_some()).map(|config| config.name).collect();
    let declared = || match names.as_slice() {
        [] => "none declares it: add `snapshot` to `workspace(..)` in the attribute of a sandbox".to_owned(),
        _ => format!("it is one of {}", names.join(", ")),
    };
    let message = match (name, names.as_slice()) {
        (Some(name), names) if names.iter().any(|known| known == name) => return Ok(name.to_owned()),
        (Some(name), _) => format!("no workspace `{name}` has snapshots: {}", declared()),
        (None, [only]) => return Ok(only.clone()),
        (None, []) => format!("no workspace has snapshots: {}", declared()),
        (None, _) => format!("select a workspace with `--workspace`: {}", declared()),
    };
    Err(Error::new(Code::NotFound, message))
}
