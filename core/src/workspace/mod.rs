//! Workspaces: a directory of a sandbox with declared capabilities, which custom code and tools use alike.
//!
//! A sandbox declares one with `workspace(..)` in its attribute, or a [`Profile`](crate::provider::Profile) with a [`WorkspaceConfig`]. A session opens it
//! on first use, in a sandbox of its own:
//!
//! ```
//! use koze_core::provider::memory::Memory;
//! use koze_core::provider::{Profile, Size};
//! use koze_core::tool::Family;
//! use koze_core::workspace::WorkspaceConfig;
//! use koze_core::{Profiles, Session, SessionId};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # pollster::block_on(async {
//! let profile = Profile {
//!     tools: vec![Family::Workspace],
//!     workspace: Some(WorkspaceConfig::new("box")),
//!     ..Profile::new("box", "debian:trixie-slim", Size { memory_mib: 256, disk_mb: 2000 })
//! };
//! let session = Session::new(Memory::new(), SessionId::new("me", "1")?, Profiles::new(vec![profile], "box")?);
//! let workspace = session.workspaces().get("box").await?;
//! let fs = workspace.fs()?;
//! fs.write("notes.txt", b"hello".to_vec()).await?;
//! assert_eq!(fs.read("/workspace/notes.txt").await?, b"hello");
//! # Ok(())
//! # })
//! # }
//! ```

mod code;
pub(crate) mod config;
mod fs;
mod language;
pub(crate) mod limits;
mod open;
pub(crate) mod registry;
pub(crate) mod shell;
mod snapshot;
mod workspaces;

use std::fmt;

#[doc(hidden)]
pub use self::code::is_context_label;
pub use self::code::{
    CODE_TIMEOUT, CodeContext, CodeError, CodeOutput, CodeRun, MAX_CODE_TIMEOUT, NewCodeContext,
    WorkspaceCode,
};
pub use self::config::{
    Capability, CodeConfig, DIRECTORY, MAX_DURATION, MAX_SNAPSHOT_BYTES, MAX_SNAPSHOTS, ShellConfig,
    SnapshotConfig, WorkspaceConfig,
};
pub use self::fs::{FileKind, FileStat, Grep, Grepped, Listed, Match, WorkspaceFs};
pub use self::language::Language;
pub use self::limits::OpenLimits;
pub use self::open::Workspace;
pub use self::registry::Phase;
pub use self::shell::{Ran, RunEvent, WorkspaceShell};
pub(crate) use self::snapshot::Derived;
pub use self::snapshot::{Contents, Pieces, Restored, Snapshot, SnapshotId, WorkspaceSnapshots};
pub use self::workspaces::{WorkspaceState, Workspaces};
use crate::error::Error;

/// The error of a workspace that cannot be opened, attached or closed, or that lacks a capability.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkspaceFailed {
    /// The workspace's name.
    pub workspace: String,
    /// Why it failed, and what to configure.
    pub error: Error,
}

impl fmt::Display for WorkspaceFailed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the workspace `{}` failed: {}", self.workspace, self.error)
    }
}

impl std::error::Error for WorkspaceFailed {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}

impl From<WorkspaceFailed> for Error {
    fn from(failed: WorkspaceFailed) -> Self {
        let message = format!("the workspace `{}` failed: {}", failed.workspace, failed.error.message);
        Error::new(failed.error.code, message).with_source(failed)
    }
}

/// The result of an operation on a workspace as a whole.
pub type Result<T> = std::result::Result<T, WorkspaceFailed>;
