//! The snapshots of a session.

use koze_core::Result;
use koze_core::http::{CreateSnapshot, RestoreSnapshot, RestoredSnapshot, SnapshotEntry, SnapshotList};
use ureq::http::Method;

use crate::Session;
use crate::request::{encode, read_text};

impl Session {
    /// Lists the snapshots of a workspace, or of all workspaces, the oldest first.
    ///
    /// # Errors
    /// [`Code::Unsupported`](koze_core::Code::Unsupported) if no workspace has snapshots, and the errors of the request.
    pub fn snapshots(&self, workspace: Option<&str>) -> Result<SnapshotList> {
        let query =
            workspace.map(|workspace| format!("?workspace={}", encode(workspace))).unwrap_or_default();
        self.client.get_json(&format!("{}{query}", self.snapshots_path()))
    }

    /// Takes a snapshot of the directory of a workspace.
    ///
    /// # Errors
    /// [`Code::Unavailable`](koze_core::Code::Unavailable) if the session has as many snapshots as its configuration allows,
    /// [`Code::TooLarge`](koze_core::Code::TooLarge) if there is no room, and the errors of the request.
    pub fn create_snapshot(&self, wanted: &CreateSnapshot) -> Result<SnapshotEntry> {
        self.client.post_json(&self.snapshots_path(), wanted)
    }

    /// Describes a snapshot.
    ///
    /// # Errors
    /// [`Code::NotFound`](koze_core::Code::NotFound) if it does not exist, and the errors of the request.
    pub fn describe_snapshot(&self, id: &str) -> Result<SnapshotEntry> {
        self.client.get_json(&self.snapshot_path(id))
    }

    /// Creates a sandbox `<workspace>-restored-…` with the content of a snapshot.
    ///
    /// # Errors
    /// [`Code::NotFound`](koze_core::Code::NotFound) if the snapshot does not exist or has expired, and the errors of the request.
    pub fn restore_snapshot(&self, id: &str, wanted: &RestoreSnapshot) -> Result<RestoredSnapshot> {
        self.client.post_json(&format!("{}/restore", self.snapshot_path(id)), wanted)
    }

    /// Creates a sandbox `<workspace>-branch-…` with the content of a snapshot.
    ///
    /// # Errors
    /// As [`restore_snapshot`](Self::restore_snapshot).
    pub fn branch_snapshot(&self, id: &str, wanted: &RestoreSnapshot) -> Result<RestoredSnapshot> {
        self.client.post_json(&format!("{}/branch", self.snapshot_path(id)), wanted)
    }

    /// Removes a snapshot.
    ///
    /// # Errors
    /// [`Code::NotFound`](koze_core::Code::NotFound) if it does not exist, and the errors of the request.
    pub fn remove_snapshot(&self, id: &str) -> Result<()> {
        let response = self.client.send(Method::DELETE, &self.snapshot_path(id), &[], ())?;
        read_text(response).map(drop)
    }

    fn snapshots_path(&self) -> String {
        format!("{}/snapshots", self.path())
    }

    fn snapshot_path(&self, id: &str) -> String {
        format!("{}/{}", self.snapshots_path(), encode(id))
    }
}
