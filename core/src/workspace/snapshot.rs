//! The snapshots of a workspace: its directory as an archive in the store of the session.
//!
//! | module | job |
//! |---|---|
//! | `id` | the IDs of snapshots |
//! | `manifest` | what is recorded of a snapshot |
//! | `frames`, `codec` | the compression of archives with zstd |
//! | `archive` | archives as streams from and to a store |
//! | `index` | the list of a session's snapshots, and its limits |
//! | `derived` | the sandboxes that were created from snapshots |
//! | `create`, `restore` | the operations |

mod archive;
mod codec;
mod create;
mod derived;
mod frames;
mod id;
mod index;
mod manifest;
mod restore;

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use serde::Serialize;

pub use self::archive::Pieces;
pub(crate) use self::derived::Derived;
use self::derived::How;
pub(super) use self::derived::{find_derived, list_derived};
pub use self::id::SnapshotId;
pub use self::manifest::Snapshot;
use super::config::{SnapshotConfig, WorkspaceConfig};
pub use crate::archive::Contents;
use crate::error::Result;
use crate::id::{SandboxId, SandboxName};
use crate::maybe_send::{MaybeSend, MaybeSync};
use crate::provider::{Profile, Provider};
use crate::session::Session;

/// A new sandbox with the content of a snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Restored {
    /// Its name in the session, which is the reference of the workspace in it: see
    /// [`Workspaces::restored`](super::Workspaces::restored).
    pub workspace: SandboxName,
    /// The snapshot.
    pub snapshot: SnapshotId,
    /// What was restored.
    pub contents: Contents,
}

/// The snapshots of a workspace. A clone is the same.
#[derive(Clone)]
pub struct WorkspaceSnapshots(Arc<dyn Operations>);

impl WorkspaceSnapshots {
    pub(super) fn new<P: Provider>(source: Source<P>) -> Self {
        WorkspaceSnapshots(Arc::new(source))
    }

    /// Returns the configuration.
    pub fn config(&self) -> &SnapshotConfig {
        self.0.config()
    }

    /// Archives the directory. Files that programs write meanwhile are archived before or after the change.
    ///
    /// # Errors
    /// [`Code::Unavailable`](crate::Code::Unavailable) if the session has as many snapshots as its configuration allows, or if a
    /// large file shrinks meanwhile; [`Code::TooLarge`](crate::Code::TooLarge) if there is no room for the archive; and the errors
    /// of the sandbox and of the store. After an error, nothing is listed.
    pub async fn create(&self) -> Result<Snapshot> {
        self.0.create().await
    }

    /// Lists the snapshots of the workspace in this session, the oldest first. Includes those that have expired until the next
    /// one is created.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn list(&self) -> Result<Vec<Snapshot>> {
        self.0.list().await
    }

    /// Creates a new sandbox `<workspace>-restored-<4 digits>` with the content of a snapshot. `session` is the session of the
    /// snapshot, if it is another one of the tenant. The sandbox of the workspace is not changed.
    ///
    /// # Errors
    /// [`Code::NotFound`](crate::Code::NotFound) if the snapshot does not exist or has expired,
    /// [`Code::PermissionDenied`](crate::Code::PermissionDenied) for another session without `allow_cross_session`,
    /// [`Code::InvalidInput`](crate::Code::InvalidInput) if the archive is damaged, and the errors of the provider. After an
    /// error, the new sandbox no longer exists.
    pub async fn restore(&self, id: &SnapshotId, session: Option<&str>) -> Result<Restored> {
        self.0.derive(id, session, How::Restored).await
    }

    /// Creates a new sandbox `<workspace>-branch-<4 digits>` with the content of a snapshot, as [`restore`](Self::restore) does.
    ///
    /// # Errors
    /// As [`restore`](Self::restore).
    pub async fn branch(&self, id: &SnapshotId, session: Option<&str>) -> Result<Restored> {
        self.0.derive(id, session, How::Branch).await
    }

    /// Removes a snapshot. Returns whether it existed.
    ///
    /// # Errors
    /// Those of the store.
    pub async fn remove(&self, id: &SnapshotId) -> Result<bool> {
        self.0.remove(id).await
    }

    /// Returns a snapshot as the content of one file, which `tar` reads too. The stream ends with an error if the archive is
    /// damaged.
    ///
    /// # Errors
    /// [`Code::NotFound`](crate::Code::NotFound) if it does not exist or has expired, and the errors of the store.
    pub async fn export(&self, id: &SnapshotId) -> Result<Pieces> {
        self.0.export(id).await
    }

    /// Adds the snapshot of an exported file, with a new ID. The origin and the time in its manifest are kept.
    ///
    /// # Errors
    /// [`Code::InvalidInput`](crate::Code::InvalidInput) if the file is damaged or not complete,
    /// [`Code::Unsupported`](crate::Code::Unsupported) if it has another format, and as [`create`](Self::create). After an error,
    /// nothing is listed.
    pub async fn import(&self, file: Pieces) -> Result<Snapshot> {
        self.0.import(file).await
    }
}

impl fmt::Debug for WorkspaceSnapshots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("WorkspaceSnapshots").field(self.config()).finish()
    }
}

/// What snapshots of a workspace need: its session creates sandboxes, and has the store.
pub(super) struct Source<P: Provider> {
    pub(super) session: Session<P>,
    pub(super) profile: Profile,
    pub(super) config: Arc<WorkspaceConfig>,
    pub(super) id: SandboxId,
    /// The sandbox of the workspace, unless it is opened only to be archived.
    pub(super) sandbox: Option<P::Sandbox>,
    /// The snapshot that the sandbox was created from.
    pub(super) parent: Option<SnapshotId>,
}

impl<P: Provider> Source<P> {
    /// The workspace's directory that is archived.
    fn archived_dir(&self) -> &str {
        self.config.snapshot_dir.as_ref().unwrap_or(&self.config.dir)
    }

    fn snapshot_config(&self) -> &SnapshotConfig {
        self.config.snapshot.as_ref().unwrap_or(&SnapshotConfig::DEFAULT)
    }
}

/// A boxed future.
#[cfg(not(target_arch = "wasm32"))]
type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
/// A boxed future.
#[cfg(target_arch = "wasm32")]
type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// The operations without the type of the provider, which a [`Workspace`](super::Workspace) does not have.
trait Operations: MaybeSend + MaybeSync {
    fn config(&self) -> &SnapshotConfig;
    fn create(&self) -> Boxed<'_, Result<Snapshot>>;
    fn list(&self) -> Boxed<'_, Result<Vec<Snapshot>>>;
    fn derive<'a>(
        &'a self,
        id: &'a SnapshotId,
        session: Option<&'a str>,
        how: How,
    ) -> Boxed<'a, Result<Restored>>;
    fn remove<'a>(&'a self, id: &'a SnapshotId) -> Boxed<'a, Result<bool>>;
    fn export<'a>(&'a self, id: &'a SnapshotId) -> Boxed<'a, Result<Pieces>>;
    fn import(&self, file: Pieces) -> Boxed<'_, Result<Snapshot>>;
}

impl<P: Provider> Operations for Source<P> {
    fn config(&self) -> &SnapshotConfig {
        self.snapshot_config()
    }

    fn create(&self) -> Boxed<'_, Result<Snapshot>> {
        Box::pin(self.create_snapshot())
    }

    fn list(&self) -> Boxed<'_, Result<Vec<Snapshot>>> {
        Box::pin(self.list_snapshots())
    }

    fn derive<'a>(
        &'a self,
        id: &'a SnapshotId,
        session: Option<&'a str>,
        how: How,
    ) -> Boxed<'a, Result<Restored>> {
        Box::pin(self.derive_sandbox(id, session, how))
    }

    fn remove<'a>(&'a self, id: &'a SnapshotId) -> Boxed<'a, Result<bool>> {
        Box::pin(self.remove_snapshot(id))
    }

    fn export<'a>(&'a self, id: &'a SnapshotId) -> Boxed<'a, Result<Pieces>> {
        Box::pin(self.export_snapshot(id))
    }

    fn import(&self, file: Pieces) -> Boxed<'_, Result<Snapshot>> {
        Box::pin(self.import_snapshot(file))
    }
}
