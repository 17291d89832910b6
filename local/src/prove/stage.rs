//! State directories and sandboxes that exist only for a proof.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::super::launch::{Weakness, Weaknesses};
use super::super::network::egress;
use super::super::{Local, LocalSandbox};
use koze_core::error::Result;
use koze_core::id::{SandboxId, SandboxName, SessionId};
use koze_core::provider::{Profile, Provider, Settings, Size};
use koze_core::sandbox::{Command, Place};

/// A state directory, and a provider on it.
pub(super) struct Stage {
    local: Local,
    pub(super) state: PathBuf,
}

impl Stage {
    /// Creates one whose sandboxes lack these protections.
    pub(super) fn new(state: PathBuf, weak: Vec<Weakness>) -> Result<Self> {
        let local = Local::on(&state, egress::Internet::default(), Weaknesses::new(weak))?;
        Ok(Stage { local, state })
    }

    /// Returns the sandbox with this name, and creates it if needed.
    pub(super) async fn open(&self, name: &str) -> Result<LocalSandbox> {
        let id = SandboxId { session: SessionId::new("koze", "proof")?, name: SandboxName::new(name)? };
        Ok(self.local.open(&id, &settings()).await?.sandbox)
    }
}

fn settings() -> Settings {
    Settings {
        profile: Profile {
            name: "proof".into(),
            reference: "proof".into(),
            internet: false,
            allowed_hosts: Vec::new(),
            denied_hosts: Vec::new(),
            env: Vec::new(),
            // The attempts run this program, and a debug build of it is large.
            size: Size { memory_mib: 512, disk_mb: 4000 },
            sleep_after: None,
            tools: Vec::new(),
            workspace: None,
        },
        sleep_after: Duration::from_mins(10),
    }
}

pub(super) fn command(argv: &[&str]) -> Command {
    Command {
        argv: argv.iter().map(|&part| part.to_owned()).collect(),
        working_dir: "/home/user".into(),
        env: Vec::new(),
        timeout: Duration::from_secs(30),
        max_output: 1 << 20,
    }
}

/// A path with the whole sandbox as its root.
pub(super) fn at(path: &str) -> Place<'_> {
    Place { root: "/", path }
}

pub(super) fn open_to_all(path: &Path) -> io::Result<()> {
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))
}
