//! The routes for the snapshots of a session.

mod body;

pub use self::body::{
    CreateSnapshot, RestoreSnapshot, RestoredSnapshot, SnapshotContents, SnapshotEntry, SnapshotList,
    SnapshotSandbox,
};
use super::body::Done;
use super::request::{Refusal, Request, Response, ok, with_status};
use crate::error::{Code, Error, Result};
use crate::provider::{Profile, Provider};
use crate::session::Session;
use crate::time::now;
use crate::workspace::{Snapshot, SnapshotId, WorkspaceSnapshots};

/// Answers a request below `/snapshots`. Only a host with workspaces contains this code.
pub(crate) async fn answer_request<P: Provider>(
    session: &Session<P>,
    request: &Request,
) -> std::result::Result<Response, Refusal> {
    let parts: Vec<&str> = request.path.iter().map(String::as_str).collect();
    match (parts.as_slice(), request.method.as_str()) {
        ([], "GET") => Ok(ok(&list(session, request.parameter("workspace")).await?)),
        ([], "POST") => Ok(with_status(201, &create(session, request.json_or_default()?).await?)),
        ([], _) => Err(Refusal::Method("GET, POST")),
        ([id], "GET") => {
            let (_, snapshot) = find(session, &SnapshotId::new(*id)?).await?;
            Ok(ok(&SnapshotEntry::new(&snapshot, now())))
        }
        ([id], "DELETE") => {
            let id = SnapshotId::new(*id)?;
            let (snapshots, _) = find(session, &id).await?;
            if !snapshots.remove(&id).await? {
                return Err(no_snapshot(&id).into());
            }
            Ok(ok(&Done::default()))
        }
        ([_], _) => Err(Refusal::Method("GET, DELETE")),
        ([id, how @ ("restore" | "branch")], "POST") => {
            let id = SnapshotId::new(*id)?;
            Ok(with_status(201, &restore(session, &id, request.json_or_default()?, *how == "branch").await?))
        }
        ([_, "restore" | "branch"], _) => Err(Refusal::Method("POST")),
        _ => Err(Refusal::NoRoute),
    }
}

async fn list<P: Provider>(session: &Session<P>, workspace: Option<&str>) -> Result<SnapshotList> {
    let (workspaces, now) = (session.workspaces(), now());
    let names = match workspace {
        Some(name) => vec![name.to_owned()],
        None => declared(session)?,
    };
    let mut snapshots = Vec::new();
    for name in &names {
        let taken = workspaces.snapshots(name)?.list().await?;
        snapshots.extend(taken.iter().map(|snapshot| SnapshotEntry::new(snapshot, now)));
    }
    snapshots.sort_by_key(|snapshot| snapshot.created);
    let derived = workspaces.derived_sandboxes().await?.into_iter();
    let mut sandboxes: Vec<_> = derived.map(|(name, derived)| SnapshotSandbox::new(&name, derived)).collect();
    sandboxes.retain(|sandbox| names.contains(&sandbox.workspace));
    Ok(SnapshotList { snapshots, sandboxes })
}

async fn create<P: Provider>(session: &Session<P>, wanted: CreateSnapshot) -> Result<SnapshotEntry> {
    let workspace = choose_workspace(session, wanted.workspace)?;
    let workspaces = session.workspaces();
    let snapshots = match wanted.sandbox {
        Some(sandbox) => workspaces.restored(&workspace, &sandbox).await?.snapshot()?.clone(),
        None => workspaces.snapshots(&workspace)?,
    };
    Ok(SnapshotEntry::new(&snapshots.create().await?, now()))
}

async fn restore<P: Provider>(
    session: &Session<P>,
    id: &SnapshotId,
    RestoreSnapshot { workspace, session: origin }: RestoreSnapshot,
    is_branch: bool,
) -> Result<RestoredSnapshot> {
    let workspace = match (workspace, &origin) {
        (None, None) => find(session, id).await?.1.workspace,
        (workspace, _) => choose_workspace(session, workspace)?,
    };
    let snapshots = session.workspaces().snapshots(&workspace)?;
    let restored = if is_branch {
        snapshots.branch(id, origin.as_deref()).await?
    } else {
        snapshots.restore(id, origin.as_deref()).await?
    };
    Ok(RestoredSnapshot::new(&workspace, &restored))
}

/// Returns a snapshot of this session, and those of its workspace.
async fn find<P: Provider>(session: &Session<P>, id: &SnapshotId) -> Result<(WorkspaceSnapshots, Snapshot)> {
    for name in declared(session)? {
        let snapshots = session.workspaces().snapshots(&name)?;
        if let Some(found) = snapshots.list().await?.into_iter().find(|snapshot| snapshot.id == *id) {
            return Ok((snapshots, found));
        }
    }
    Err(no_snapshot(id))
}

fn no_snapshot(id: &SnapshotId) -> Error {
    Error::new(
        Code::NotFound,
        format!("there is no snapshot `{id}` in this session: `GET` of `snapshots` lists them"),
    )
}

/// Returns the names of the workspaces that declare snapshots.
///
/// # Errors
/// [`Code::Unsupported`] if none does.
fn declared<P: Provider>(session: &Session<P>) -> Result<Vec<String>> {
    let configs = session.profiles().list().iter().filter_map(Profile::served_workspace);
    let names: Vec<String> =
        configs.filter(|config| config.snapshot.is_some()).map(|config| config.name).collect();
    if names.is_empty() { Err(unsupported()) } else { Ok(names) }
}

/// Returns the error of a project without snapshots.
pub(crate) fn unsupported() -> Error {
    let message = "no workspace of this project has snapshots: add `snapshot` to `workspace(..)` in the attribute of a sandbox";
    Error::new(Code::Unsupported, message)
}

/// Returns the workspace with this name, or the only one that declares snapshots.
fn choose_workspace<P: Provider>(session: &Session<P>, name: Option<String>) -> Result<String> {
    if let Some(name) = name {
        return Ok(name);
    }
    let names = declared(session)?;
    if let [only] = names.as_slice() {
        return Ok(only.clone());
    }
    let message =
        format!("several workspaces have snapshots: set `workspace` to one of {}", names.join(", "));
    Err(Error::new(Code::InvalidInput, message))
}

#[cfg(test)]
mod tests;
