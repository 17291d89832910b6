//! `snapshot`, `restore` and `branch`.

#[cfg(test)]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::Operation;
use crate::error::Result;
use crate::sandbox::Sandbox;
use crate::tool::Reply;
use crate::workspace::{Capability, Restored, SnapshotId, Workspace};

pub(super) struct Take;
pub(super) struct Restore;
pub(super) struct Branch;

/// The input of `snapshot`.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct Nothing {}

/// The input of `restore` and `branch`.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct Origin {
    /// The snapshot that `snapshot` returned.
    snapshot: String,
    /// The session of the snapshot, if it is another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(with = "String"))]
    session: Option<String>,
}

/// The result of `snapshot`.
#[derive(Debug, Serialize)]
struct Taken {
    snapshot: SnapshotId,
    entries: u64,
    bytes: u64,
    archive_bytes: u64,
    /// Only if there are any.
    #[serde(skip_serializing_if = "Option::is_none")]
    skipped: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires: Option<u64>,
}

impl Operation for Take {
    const NAME: &'static str = "snapshot";
    const DESCRIPTION: &'static str = "Take a snapshot of the directory. Returns snapshot, the ID for restore and branch, the number of \
        entries, the size of the files in bytes, and how many bytes the snapshot takes in the store. skipped counts sockets, pipes \
        and devices, which are left out, and expires is the time until which it is kept, in milliseconds since the epoch.";
    const CAPABILITY: Capability = Capability::Snapshot;
    type Input = Nothing;

    async fn call<S: Sandbox>(workspace: &Workspace<S>, _: Nothing) -> Result<Reply> {
        let taken = workspace.snapshot()?.create().await?;
        Reply::ok(Taken {
            snapshot: taken.id,
            entries: taken.contents.entries,
            bytes: taken.contents.bytes,
            archive_bytes: taken.archive_bytes,
            skipped: (taken.contents.skipped > 0).then_some(taken.contents.skipped),
            expires: taken.expires,
        })
    }
}

impl Operation for Restore {
    const NAME: &'static str = "restore";
    const DESCRIPTION: &'static str = "Go back to a snapshot: create a new sandbox with its content, to continue there. Returns workspace: \
        pass it to the other tools of this workspace from now on. The current content stays as it is.";
    const CAPABILITY: Capability = Capability::Snapshot;
    type Input = Origin;

    async fn call<S: Sandbox>(workspace: &Workspace<S>, input: Origin) -> Result<Reply> {
        let id = SnapshotId::new(input.snapshot)?;
        to_reply(&workspace.snapshot()?.restore(&id, input.session.as_deref()).await?)
    }
}

impl Operation for Branch {
    const NAME: &'static str = "branch";
    const DESCRIPTION: &'static str = "Try something without changing the current content: create a second sandbox with the content of a \
        snapshot. Returns workspace: pass it to the other tools of this workspace where they should use the second sandbox, and \
        leave it out for the first.";
    const CAPABILITY: Capability = Capability::Snapshot;
    type Input = Origin;

    async fn call<S: Sandbox>(workspace: &Workspace<S>, input: Origin) -> Result<Reply> {
        let id = SnapshotId::new(input.snapshot)?;
        to_reply(&workspace.snapshot()?.branch(&id, input.session.as_deref()).await?)
    }
}

fn to_reply(restored: &Restored) -> Result<Reply> {
    let Restored { workspace, contents, .. } = restored;
    Reply::ok(json!({ "workspace": workspace, "entries": contents.entries, "bytes": contents.bytes }))
}
