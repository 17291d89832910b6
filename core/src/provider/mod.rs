//! Sandbox providers.

pub mod memory;
mod scripts;

use std::future::Future;
use std::time::Duration;

use koze_protocol::Family;

pub use self::scripts::ScriptProvider;
use crate::archive::{Contents, Tar};
pub use crate::egress::{Credential, Limits, Placement};
use crate::error::{Code, Error, Result};
use crate::id::{SandboxId, SandboxName, SessionId};
use crate::journal::UnmaskedCall;
use crate::maybe_send::MaybeSend;
use crate::sandbox::{Sandbox, SavedDisk, Status};
use crate::store::{Key, Store};
use crate::workspace::config::WorkspaceConfig;
use crate::workspace::limits::OpenLimits;

/// Opens sandboxes and keeps track of them across restarts of the host process.
pub trait Provider: ScriptProvider {
    /// The type of its sandboxes.
    type Sandbox: Sandbox;
    /// The type of its stores.
    type Store: Store;

    /// Returns what `sandbox_create` says about a sandbox of a profile on this provider, if anything.
    fn note(&self, profile: &Profile) -> Option<String> {
        let _ = profile;
        None
    }

    /// Returns whether this provider keeps a journal of tool calls. By default, it does not.
    fn has_journal(&self) -> bool {
        false
    }

    /// Returns whether the journal keeps the pictures in results. By default, it does not.
    fn keeps_pictures(&self) -> bool {
        false
    }

    /// Records a tool call of a session. It must return at once, because the call waits for it; a failure must not affect the call.
    fn record_call(&self, session: &SessionId, call: UnmaskedCall) {
        let _ = (session, call);
    }

    /// Returns the limits of workspaces that all sessions of this provider open at the same time.
    fn open_limits(&self) -> &OpenLimits;

    /// Returns the sandbox with this ID. Creates it from `settings` if it does not exist.
    ///
    /// Concurrent calls create the sandbox once and return the same one.
    fn open(
        &self,
        id: &SandboxId,
        settings: &Settings,
    ) -> impl Future<Output = Result<Opened<Self::Sandbox>>> + MaybeSend;

    /// Returns the sandbox with this ID if it exists. Never creates one.
    fn find(&self, id: &SandboxId)
    -> impl Future<Output = Result<Option<Opened<Self::Sandbox>>>> + MaybeSend;

    /// Lists the sandboxes of a session, sorted by name.
    fn list(&self, session: &SessionId) -> impl Future<Output = Result<Vec<Info>>> + MaybeSend;

    /// Lists the sleeping sandboxes of a session, sorted by name.
    ///
    /// # Errors
    /// [`Code::Unsupported`] unless the provider records when a sandbox was last used.
    fn list_hibernated(
        &self,
        session: &SessionId,
    ) -> impl Future<Output = Result<Vec<Hibernated>>> + MaybeSend {
        let _ = session;
        let message = "this provider does not record when a sandbox was last used";
        async move { Err(Error::new(Code::Unsupported, message)) }
    }

    /// Returns the store of a session. Stores of different sessions share nothing.
    ///
    /// # Errors
    /// [`Code::Unsupported`] if the provider has no place for it, with what to configure.
    fn store(&self, session: &SessionId) -> Result<Self::Store>;

    /// Returns the store of a session with the bucket that the snapshots of a workspace are declared with. By default, it is
    /// the session's store, because only a Worker has buckets.
    ///
    /// # Errors
    /// As [`store`](Self::store).
    fn snapshot_store(&self, session: &SessionId, bucket: Option<&str>) -> Result<Self::Store> {
        let _ = bucket;
        self.store(session)
    }

    /// Keeps a directory of a sandbox as a layer: its files as they are, with which other sandboxes can begin without a copy. The
    /// store lists the layer under `key` and deletes it, like a blob. Returns `None` if the directory is to be archived instead, which
    /// is the default.
    ///
    /// # Errors
    /// As [`Sandbox::archive`]. After an error, nothing is listed.
    fn take_layer(
        &self,
        sandbox: &Self::Sandbox,
        dir: &str,
        store: &Self::Store,
        key: &Key,
    ) -> impl Future<Output = Result<Option<TakenLayer>>> + MaybeSend {
        let _ = (sandbox, dir, store, key);
        async { Ok(None) }
    }

    /// Creates a sandbox whose directory begins with a layer. Returns `None` if this provider cannot do that, and then has created nothing.
    ///
    /// # Errors
    /// As [`open`](Self::open), and [`Code::InvalidInput`] for a damaged layer.
    fn open_on_layer(
        &self,
        id: &SandboxId,
        settings: &Settings,
        dir: &str,
        store: &Self::Store,
        key: &Key,
    ) -> impl Future<Output = Result<Option<Opened<Self::Sandbox>>>> + MaybeSend {
        let _ = (id, settings, dir, store, key);
        async { Ok(None) }
    }

    /// Returns a layer as an archive, if there is one under this key.
    ///
    /// # Errors
    /// [`Code::InvalidInput`] for a damaged layer.
    fn read_layer(
        &self,
        store: &Self::Store,
        key: &Key,
    ) -> impl Future<Output = Result<Option<Tar>>> + MaybeSend {
        let _ = (store, key);
        async { Ok(None) }
    }
}

/// The settings of a new sandbox.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Settings {
    /// The profile.
    #[serde(rename = "image")]
    pub profile: Profile,
    /// The idle time before it sleeps.
    pub sleep_after: Duration,
    /// The name of its size, one of [`Profile::sizes`], if it was chosen. The profile's `size` is then that size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<String>,
}

/// A sandbox profile: what one of the project's sandbox files declares.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Profile {
    /// The name of the sandbox that declares it, without `.sandbox.rs`: `python`.
    pub name: String,
    /// A registry reference, or the path of a Dockerfile.
    pub reference: String,
    /// The name of the image in this machine's store of images, or its ID there, if that is not the reference: an image that is built
    /// from a Dockerfile has a name that no registry has. Models see the reference.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stored: Option<String>,
    /// Whether its sandboxes can reach the internet.
    pub internet: bool,
    /// The hosts that its sandboxes may reach. Empty means any host, if `internet` is set.
    pub allowed_hosts: Vec<String>,
    /// The hosts that its sandboxes may not reach.
    pub denied_hosts: Vec<String>,
    /// The credentials of its requests. Its sandboxes have placeholders in their place.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub credentials: Vec<Credential>,
    /// How much its sandboxes may exchange with each host.
    #[serde(default, skip_serializing_if = "Limits::is_empty")]
    pub limits: Limits,
    /// Its environment variables.
    pub env: Vec<(String, String)>,
    /// The size of its sandboxes.
    pub size: Size,
    /// The sizes that callers may choose from instead.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sizes: Vec<NamedSize>,
    /// The idle time before its sandboxes sleep, if the profile sets one.
    #[serde(default)]
    pub sleep_after: Option<Duration>,
    /// Whether the files of its sandboxes outlive sleep in a Worker. On this machine, they always do.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub keep_files: bool,
    /// The files that its sandboxes have on this machine.
    #[serde(default, skip_serializing_if = "LocalImage::is_default")]
    pub local_image: LocalImage,
    /// Whether agents can start processes that keep running, and use them.
    #[serde(default = "has_processes", skip_serializing_if = "Clone::clone")]
    pub processes: bool,
    /// The families of tools that its sandboxes serve.
    #[serde(default = "default_families")]
    pub tools: Vec<Family>,
    /// Its workspace, if it serves the tools `workspace` and declares more than the defaults.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workspace: Option<WorkspaceConfig>,
}

fn has_processes() -> bool {
    true
}

/// What a sandbox serves unless its attribute says otherwise.
fn default_families() -> Vec<Family> {
    vec![Family::Agent]
}

impl Profile {
    /// Creates a profile with defaults: no internet access, no environment variables, and the tools `agent`.
    pub fn new(name: impl Into<String>, reference: impl Into<String>, size: Size) -> Self {
        Profile {
            name: name.into(),
            reference: reference.into(),
            stored: None,
            internet: false,
            allowed_hosts: Vec::new(),
            denied_hosts: Vec::new(),
            credentials: Vec::new(),
            limits: Limits::default(),
            env: Vec::new(),
            size,
            sizes: Vec::new(),
            sleep_after: None,
            keep_files: false,
            local_image: LocalImage::default(),
            processes: true,
            tools: default_families(),
            workspace: None,
        }
    }

    /// Returns the name of its image in this machine's store of images.
    pub fn stored_name(&self) -> &str {
        self.stored.as_deref().unwrap_or(&self.reference)
    }

    /// Returns the profile with the size of this name.
    ///
    /// # Errors
    /// [`Code::InvalidInput`] if callers cannot choose it, with what they can choose.
    pub fn with_size(self, name: Option<&str>) -> Result<Self> {
        let Some(name) = name else { return Ok(self) };
        if let Some(NamedSize { size, .. }) = self.sizes.iter().find(|size| size.name == name) {
            let size = *size;
            return Ok(Profile { size, ..self });
        }
        let known: Vec<&str> = self.sizes.iter().map(|size| size.name.as_str()).collect();
        let message = if known.is_empty() {
            format!("the sandboxes of the image `{}` have one size: leave out `size`", self.name)
        } else {
            format!("the image `{}` has no size `{name}`: its sizes are {}", self.name, known.join(", "))
        };
        Err(Error::new(Code::InvalidInput, message))
    }

    /// Returns the workspace of its sandboxes, if it serves the tools `workspace`. By default it has the name of the profile.
    pub fn served_workspace(&self) -> Option<WorkspaceConfig> {
        let default = || WorkspaceConfig::new(self.name.replace('_', "-"));
        let serves = self.tools.contains(&Family::Workspace);
        serves.then(|| WorkspaceConfig {
            processes: self.processes,
            ..self.workspace.clone().unwrap_or_else(default)
        })
    }
}

/// The files that new sandboxes have on this machine: those of their image, or this machine's programs. In a Worker, they
/// always have those of the image.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LocalImage {
    /// The image's if the machine's store has it, and this machine's otherwise.
    #[default]
    Stored,
    /// The image's. An image that the store does not have is pulled.
    Declared,
    /// This machine's.
    Host,
}

impl LocalImage {
    /// Returns whether this is the default.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// A size that callers may choose for a sandbox.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct NamedSize {
    /// The name of Cloudflare's instance type: `standard-1`.
    pub name: String,
    /// The size.
    pub size: Size,
}

/// The size of a sandbox, as in Cloudflare's instance types.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Size {
    /// Memory in MiB.
    pub memory_mib: u32,
    /// Disk in MB.
    pub disk_mb: u32,
}

impl Size {
    /// Returns the number of processors: that of Cloudflare's instance type with this memory, but at least one, because a
    /// sixteenth of one is too slow for interactive use.
    pub fn processors(self) -> u64 {
        match self.memory_mib {
            12_288.. => 4,
            8192.. => 2,
            _ => 1,
        }
    }
}

/// A sandbox that was opened.
#[derive(Debug)]
pub struct Opened<S> {
    /// The sandbox.
    pub sandbox: S,
    /// The name of its profile. It can differ from the requested one if the sandbox already existed.
    pub profile: String,
    /// The name of its size, if it was chosen.
    pub size: Option<String>,
    /// Whether it was created by this call.
    pub created: bool,
}

/// A directory that was kept as a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TakenLayer {
    /// What it contains.
    pub contents: Contents,
    /// How many bytes it takes in the store, without what it shares with earlier layers.
    pub bytes: u64,
}

/// An entry of the list of sandboxes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Info {
    /// Its name within the session.
    pub name: SandboxName,
    /// The name of its profile.
    pub profile: String,
    /// Whether it runs or sleeps.
    pub status: Status,
    /// Its saved disk, if it has one. It begins with it when it wakes.
    pub saved: Option<SavedDisk>,
}

/// A sleeping sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hibernated {
    /// Its name within the session.
    pub name: SandboxName,
    /// The name of its profile.
    pub profile: String,
    /// The time of its last use in milliseconds since 1970, accurate to a minute.
    pub last_used: u64,
}
