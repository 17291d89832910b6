//! A workspace in a sandbox of this machine.

use koze_core::provider::Profile;
use koze_core::workspace::Workspace;
use koze_core::{Profiles, Session};
use koze_local::{Local, LocalSandbox};

use crate::stage::{Stage, id};

/// The workspace `box`, and what must outlive it.
pub(crate) struct Scene {
    pub(crate) workspace: Workspace<LocalSandbox>,
    _session: Session<Local>,
    _state: tempfile::TempDir,
}

impl Scene {
    /// Opens the workspace that a profile declares.
    pub(crate) async fn open(profile: Profile) -> Self {
        let Stage { local, state } = Stage::new();
        let profiles = Profiles::new(vec![profile], "python").unwrap();
        let session = Session::new(local, id("default").session, profiles);
        let workspace = session.workspaces().get("box").await.unwrap();
        Scene { workspace, _session: session, _state: state }
    }
}
