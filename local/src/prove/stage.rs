//! State directories and sandboxes that exist only for a proof.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::permit::Permit;
use super::probes::ALLOWED_HOST;
use crate::weakness::{Weakness, Weaknesses};
use crate::{Local, LocalSandbox};
use koze_core::error::Result;
use koze_core::id::{SandboxId, SandboxName, SessionId};
use koze_core::provider::{Profile, Provider, Settings, Size};
use koze_core::sandbox::{Command, Place};
use koze_egress::Internet;

/// A state directory, and a provider on it.
pub(super) struct Stage {
    pub(super) local: Local,
    /// The hosts that sandboxes may reach.
    allowed_hosts: Vec<String>,
    pub(super) state: PathBuf,
}

impl Stage {
    /// Creates one whose sandboxes lack these protections, may reach this server as [`ALLOWED_HOST`], and have the image of this store.
    pub(super) fn new(
        state: PathBuf,
        weak: Vec<Weakness>,
        server: Option<SocketAddr>,
        images: Option<PathBuf>,
    ) -> Result<Self> {
        let names: HashMap<String, SocketAddr> =
            server.into_iter().map(|server| (ALLOWED_HOST.to_owned(), server)).collect();
        let allowed_hosts = names.keys().cloned().collect();
        let internet = Internet { names, ..Internet::default() };
        let mut local = open_without(weak, &state, internet)?;
        if let Some(images) = images {
            local = local.with_images(images);
        }
        Ok(Stage { local, allowed_hosts, state })
    }

    /// Returns the sandbox with this name, and creates it if needed.
    pub(super) async fn open(&self, name: &str) -> Result<LocalSandbox> {
        let id = SandboxId { session: SessionId::new("koze", "proof")?, name: SandboxName::new(name)? };
        Ok(self.local.open(&id, &settings(self.allowed_hosts.clone())).await?.sandbox)
    }
}

/// Opens a state directory whose sandboxes lack these protections.
pub(super) fn open_without(weak: Vec<Weakness>, state: &Path, internet: Internet) -> Result<Local> {
    Local::on(state, internet, Weaknesses::new(weak, &Permit::new()))
}

fn settings(allowed_hosts: Vec<String>) -> Settings {
    Settings {
        profile: Profile {
            allowed_hosts,
            tools: Vec::new(),
            // The attempts run this program, and a debug build of it is large.
            ..Profile::new("proof", "proof", Size { memory_mib: 512, disk_mb: 4000 })
        },
        sleep_after: Duration::from_mins(10),
        size: None,
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
