//! The bodies of the routes for snapshots.

#[cfg(test)]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::archive::Contents;
use crate::id::SandboxName;
use crate::workspace::{Derived, Restored, Snapshot};

/// The snapshots of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct SnapshotList {
    /// The snapshots of its workspaces, the oldest first.
    pub snapshots: Vec<SnapshotEntry>,
    /// The sandboxes that were created from snapshots and still exist, sorted by name.
    pub sandboxes: Vec<SnapshotSandbox>,
}

/// A snapshot of the directory of a workspace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct SnapshotEntry {
    /// Its ID: `snap_` and 32 hexadecimal digits.
    pub id: String,
    /// The workspace that it was taken of.
    pub workspace: String,
    /// The session that it was taken in.
    pub session: String,
    /// The directory.
    pub dir: String,
    /// When it was taken, in milliseconds since 1970.
    pub created: u64,
    /// When it expires, in milliseconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<u64>,
    /// Whether it has expired. It can then not be restored.
    pub expired: bool,
    /// The snapshot that its sandbox was created from. It may have been removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// What it contains.
    pub contents: SnapshotContents,
    /// How many bytes it takes in the store.
    pub archive_bytes: u64,
    /// The SHA-256 of its archive, in hexadecimal digits. A layer has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
}

impl SnapshotEntry {
    /// Describes a snapshot at a time in milliseconds since 1970.
    pub fn new(snapshot: &Snapshot, now: u64) -> Self {
        SnapshotEntry {
            id: snapshot.id.to_string(),
            workspace: snapshot.workspace.clone(),
            session: snapshot.session.clone(),
            dir: snapshot.dir.clone(),
            created: snapshot.created,
            expires: snapshot.expires,
            expired: snapshot.is_expired(now),
            parent: snapshot.parent.as_ref().map(ToString::to_string),
            contents: snapshot.contents.into(),
            archive_bytes: snapshot.archive_bytes,
            sha256: snapshot.sha256.clone(),
        }
    }
}

/// What a snapshot contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct SnapshotContents {
    /// The number of files, directories and symbolic links.
    pub entries: u64,
    /// The size of the files in bytes.
    pub bytes: u64,
    /// The number of sockets, pipes and devices, which were left out.
    pub skipped: u64,
}

impl From<Contents> for SnapshotContents {
    fn from(Contents { entries, bytes, skipped }: Contents) -> Self {
        SnapshotContents { entries, bytes, skipped }
    }
}

/// A sandbox that was created from a snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct SnapshotSandbox {
    /// Its name, which the tools of the workspace take as `workspace`.
    pub name: String,
    /// Its workspace.
    pub workspace: String,
    /// The snapshot. It may have been removed.
    pub snapshot: String,
}

impl SnapshotSandbox {
    pub(super) fn new(name: &SandboxName, derived: Derived) -> Self {
        SnapshotSandbox {
            name: name.to_string(),
            workspace: derived.workspace,
            snapshot: derived.snapshot.to_string(),
        }
    }
}

/// A snapshot to take.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct CreateSnapshot {
    /// The workspace [default: the only one that declares `snapshot`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<String>,
    /// The sandbox that was created from an earlier snapshot [default: the workspace's own].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<String>,
}

/// How to create a sandbox from a snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct RestoreSnapshot {
    /// The workspace [default: that of the snapshot; with `session`, the only one that declares `snapshot`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<String>,
    /// The session of the snapshot, if it is another one of the tenant. The workspace must declare `allow_cross_session`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
}

/// A new sandbox with the content of a snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct RestoredSnapshot {
    /// The name of the sandbox, which the tools of the workspace take as `workspace`.
    pub sandbox: String,
    /// The workspace.
    pub workspace: String,
    /// The snapshot.
    pub snapshot: String,
    /// What was restored.
    pub contents: SnapshotContents,
}

impl RestoredSnapshot {
    pub(super) fn new(workspace: &str, restored: &Restored) -> Self {
        RestoredSnapshot {
            sandbox: restored.workspace.to_string(),
            workspace: workspace.to_owned(),
            snapshot: restored.snapshot.to_string(),
            contents: restored.contents.into(),
        }
    }
}
