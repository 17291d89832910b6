//! The command that works with snapshots.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{ListFormat, RemoteArgs, SessionArgs};

/// `koze snapshot`.
#[derive(Debug, Args)]
pub struct Snapshot {
    /// What to do.
    #[command(subcommand)]
    pub action: SnapshotAction,
}

/// The actions of `koze snapshot`.
#[derive(Debug, Subcommand)]
pub enum SnapshotAction {
    /// Keep the directory of a workspace as it is, and print the ID of the snapshot
    Create {
        /// The workspace.
        #[command(flatten)]
        place: SnapshotArgs,
    },
    /// List the snapshots of a session
    List {
        /// The workspace.
        #[command(flatten)]
        place: SnapshotArgs,

        /// Output for people, or one JSON document on standard output
        #[arg(long, value_name = "FORMAT", default_value = "human")]
        format: ListFormat,
    },
    /// Create a sandbox `NAME-restored-…` with the content of a snapshot, and print its name
    Restore {
        /// The ID of the snapshot
        #[arg(value_name = "SNAPSHOT")]
        id: String,

        /// The workspace.
        #[command(flatten)]
        place: SnapshotArgs,
    },
    /// Create a sandbox `NAME-branch-…` with the content of a snapshot, and print its name
    Branch {
        /// The ID of the snapshot
        #[arg(value_name = "SNAPSHOT")]
        id: String,

        /// The workspace.
        #[command(flatten)]
        place: SnapshotArgs,
    },
    /// Write a snapshot to a file, which `tar` reads too
    Export {
        /// The ID of the snapshot
        #[arg(value_name = "SNAPSHOT")]
        id: String,

        /// The file to write, such as `box.tar.zst`. An existing file is replaced
        file: PathBuf,

        /// The workspace.
        #[command(flatten)]
        place: SnapshotArgs,
    },
    /// Verify the file of an exported snapshot and add the snapshot, and print its new ID
    Import {
        /// The file
        file: PathBuf,

        /// The workspace.
        #[command(flatten)]
        place: SnapshotArgs,
    },
    /// Remove snapshots
    Rm {
        /// The IDs of the snapshots
        #[arg(value_name = "SNAPSHOT", required = true)]
        ids: Vec<String>,

        /// The workspace.
        #[command(flatten)]
        place: SnapshotArgs,
    },
}

impl SnapshotAction {
    /// Returns the options that select a workspace.
    pub fn place(&self) -> &SnapshotArgs {
        let (SnapshotAction::Create { place }
        | SnapshotAction::List { place, .. }
        | SnapshotAction::Restore { place, .. }
        | SnapshotAction::Branch { place, .. }
        | SnapshotAction::Export { place, .. }
        | SnapshotAction::Import { place, .. }
        | SnapshotAction::Rm { place, .. }) = self;
        place
    }
}

/// The options that select a workspace.
#[derive(Debug, Clone, Args)]
pub struct SnapshotArgs {
    /// The workspace [default: the only one that declares `snapshot`]
    #[arg(long, value_name = "NAME")]
    pub workspace: Option<String>,

    /// The options for the project.
    #[command(flatten)]
    pub session: SessionArgs,

    /// The option that selects a server.
    #[command(flatten)]
    pub remote: RemoteArgs,
}
