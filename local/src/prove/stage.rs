//! State directories and sandboxes that exist only for a proof.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::permit::Permit;
use super::probes::{ALLOWED_HOST, CREDENTIAL, CREDENTIAL_HOST};
use crate::weakness::{Weakness, Weaknesses};
use crate::{Local, LocalSandbox};
use koze_core::egress::{Credential, Placement};
use koze_core::error::Result;
use koze_core::id::{SandboxId, SandboxName, SessionId};
use koze_core::provider::{Profile, Provider, Settings, Size};
use koze_core::sandbox::{Command, Place};
use koze_egress::Internet;
use koze_state::Secrets;

/// The servers that sandboxes reach by name.
#[derive(Clone)]
pub(super) struct Servers {
    /// That of [`ALLOWED_HOST`], without TLS.
    pub(super) plain: SocketAddr,
    /// That of [`CREDENTIAL_HOST`].
    pub(super) tls: SocketAddr,
    /// The certificate of its authority, in DER.
    pub(super) authority: Vec<u8>,
    /// The value of [`CREDENTIAL`].
    pub(super) value: String,
}

/// A state directory, and a provider on it.
pub(super) struct Stage {
    pub(super) local: Local,
    /// The hosts that sandboxes may reach.
    allowed_hosts: Vec<String>,
    credentials: Vec<Credential>,
    pub(super) state: PathBuf,
}

impl Stage {
    /// Creates one whose sandboxes lack these protections, may reach these servers, and have the image of this store.
    pub(super) fn new(
        state: PathBuf,
        weak: Vec<Weakness>,
        servers: Option<&Servers>,
        images: Option<PathBuf>,
    ) -> Result<Self> {
        let all = servers.map(|servers| [(ALLOWED_HOST, servers.plain), (CREDENTIAL_HOST, servers.tls)]);
        let names: HashMap<String, SocketAddr> =
            all.into_iter().flatten().map(|(name, address)| (name.to_owned(), address)).collect();
        let allowed_hosts = names.keys().cloned().collect();
        let roots = servers.map(|servers| servers.authority.clone()).into_iter().collect();
        let internet = Internet { names, roots, ..Internet::default() };
        let secrets = Secrets::at(state.with_extension("secrets"));
        let mut local = open_without(weak, &state, internet)?;
        if let Some(images) = images {
            local = local.with_images(images);
        }
        let mut credentials = Vec::new();
        if let Some(servers) = servers {
            secrets.set(CREDENTIAL, &servers.value)?;
            let (name, host) = (CREDENTIAL.to_owned(), CREDENTIAL_HOST.to_owned());
            credentials.push(Credential { name, host, placement: Placement::Bearer });
            local = local.with_secrets(secrets);
        }
        Ok(Stage { local, allowed_hosts, credentials, state })
    }

    /// Returns the sandbox with this name, and creates it if needed.
    pub(super) async fn open(&self, name: &str) -> Result<LocalSandbox> {
        let id = SandboxId { session: SessionId::new("koze", "proof")?, name: SandboxName::new(name)? };
        Ok(self
            .local
            .open(&id, &settings(self.allowed_hosts.clone(), self.credentials.clone()))
            .await?
            .sandbox)
    }
}

/// Opens a state directory whose sandboxes lack these protections.
pub(super) fn open_without(weak: Vec<Weakness>, state: &Path, internet: Internet) -> Result<Local> {
    Local::on(state, internet, Weaknesses::new(weak, &Permit::new()))
}

fn settings(allowed_hosts: Vec<String>, credentials: Vec<Credential>) -> Settings {
    Settings {
        profile: Profile {
            allowed_hosts,
            credentials,
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
