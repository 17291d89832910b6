//! The workspaces of a session.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::Serialize;

use super::limits::Retry;
use super::open::undeclared_error;
use super::registry::{Known, Phase, Registry};
use super::snapshot::{self, Derived, Source};
use super::{
    Capability, Result, SnapshotId, Workspace, WorkspaceConfig, WorkspaceFailed, WorkspaceSnapshots,
};
use crate::error::{Code, Error};
use crate::id::{SandboxId, SandboxName};
use crate::provider::{Opened, Profile, Provider, Settings};
use crate::sandbox::{Place, Sandbox};
use crate::session::{SLEEP_AFTER, Session};
use crate::store::Store as _;
use crate::time::{Start, millis};
use crate::together::join_all;
use crate::trace::event;

/// A description of a workspace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WorkspaceState {
    /// Its name.
    pub name: String,
    /// The name of its profile.
    pub profile: String,
    /// Its directory.
    pub dir: String,
    /// Its declared capabilities.
    pub capabilities: Vec<Capability>,
    /// Whether it is shared by the sessions of a tenant.
    pub shared: bool,
    /// Its state in this process.
    pub phase: Phase,
    /// The last error of opening, attaching or closing it.
    pub last_error: Option<Error>,
}

/// Whether a workspace may be created, and whether callers are spread over time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Attach {
    Open,
    Resolve,
    Lazily,
}

/// The workspaces of a session. See [`Session::workspaces`].
#[derive(Debug)]
pub struct Workspaces<P> {
    session: Session<P>,
    registry: Arc<Registry>,
}

impl<P: Provider> Session<P> {
    /// Returns the workspaces of the session: those that its profiles declare.
    pub fn workspaces(&self) -> Workspaces<P> {
        Workspaces { session: self.clone(), registry: Arc::clone(self.workspace_registry()) }
    }
}

impl<P: Provider> Workspaces<P> {
    /// Returns the names of the declared workspaces, in the order of their profiles.
    pub fn names(&self) -> Vec<String> {
        self.declared_configs().map(|(_, config)| config.name).collect()
    }

    /// Returns a workspace. Attaches or creates it on first use; after a restart, the first uses are spread over up to 300 ms
    /// where there is more than one.
    ///
    /// # Errors
    /// [`Code::NotFound`] if the project does not declare it, [`Code::InvalidInput`] if its configuration is not valid,
    /// [`Code::Unsupported`] if the provider lacks a declared capability, and the errors of the provider.
    pub async fn get(&self, name: &str) -> Result<Workspace<P::Sandbox>> {
        self.attach(name, Attach::Lazily).await
    }

    /// Opens a workspace. Creates its sandbox and its directory unless they exist.
    ///
    /// # Errors
    /// As [`Workspaces::get`].
    pub async fn open(&self, name: &str) -> Result<Workspace<P::Sandbox>> {
        self.attach(name, Attach::Open).await
    }

    /// Opens all workspaces, within the limits of the session and the provider.
    ///
    /// # Errors
    /// The first error, after all others have been tried.
    pub async fn open_all(&self) -> Result<Vec<Workspace<P::Sandbox>>> {
        let names = self.names();
        let opened = join_all(names.iter().map(|name| self.open(name))).await;
        opened.into_iter().collect()
    }

    /// Attaches a workspace that exists, such as after a restart. Never creates one.
    ///
    /// # Errors
    /// As [`Workspaces::get`]; [`Code::NotFound`] also if it was never opened or was destroyed.
    pub async fn resolve(&self, name: &str) -> Result<Workspace<P::Sandbox>> {
        self.attach(name, Attach::Resolve).await
    }

    /// Returns the snapshots of a workspace without opening it. Only [`create`](WorkspaceSnapshots::create) opens it.
    ///
    /// # Errors
    /// [`Code::NotFound`] if the project does not declare the workspace, [`Code::Unsupported`] if it does not declare the
    /// capability, and [`Code::InvalidInput`] if its configuration is not valid.
    pub fn snapshots(&self, name: &str) -> Result<WorkspaceSnapshots> {
        let (profile, config) = self.find_config(name)?;
        let failed = |error| WorkspaceFailed { workspace: name.to_owned(), error };
        let id = config.sandbox_id(self.session.id()).map_err(failed)?;
        if config.snapshot.is_none() {
            return Err(undeclared_error(Capability::Snapshot, name));
        }
        let (session, profile) = (self.session.clone(), profile.clone());
        let source = Source { session, profile, config: Arc::new(config), id, sandbox: None, parent: None };
        Ok(WorkspaceSnapshots::new(source))
    }

    /// Returns a workspace in a sandbox that was created from one of its snapshots.
    ///
    /// # Errors
    /// [`Code::NotFound`] if this session has no such sandbox, and as [`Workspaces::get`].
    pub async fn restored(&self, name: &str, sandbox: &str) -> Result<Workspace<P::Sandbox>> {
        let (profile, config) = self.find_config(name)?;
        let found = self.find_restored(profile, &config, sandbox).await;
        found.map_err(|error| WorkspaceFailed { workspace: name.to_owned(), error })
    }

    /// Returns the sandboxes that were created from snapshots of this session's workspaces and still exist, sorted by name.
    pub(crate) async fn derived_sandboxes(&self) -> crate::Result<Vec<(SandboxName, Derived)>> {
        let derived = snapshot::list_derived(&self.session.store()?).await?;
        if derived.is_empty() {
            return Ok(Vec::new());
        }
        let infos = self.session.list().await?;
        let exists = |name: &SandboxName| infos.iter().any(|info| info.name == *name);
        Ok(derived.into_iter().filter(|(name, _)| exists(name)).collect())
    }

    async fn find_restored(
        &self,
        profile: &Profile,
        config: &WorkspaceConfig,
        sandbox: &str,
    ) -> crate::Result<Workspace<P::Sandbox>> {
        let sandbox = SandboxName::new(sandbox)?;
        let record = snapshot::find_derived(&self.session.store()?, &sandbox).await?;
        let record = record.filter(|derived: &Derived| derived.workspace == config.name);
        let id = SandboxId { session: self.session.id().clone(), name: sandbox };
        self.session.note_use(&id.name);
        let opened = match &record {
            Some(_) => self.session.provider().find(&id).await?,
            None => None,
        };
        let (Some(record), Some(opened)) = (record, opened) else {
            let message = format!(
                "it was not restored as `{}` in this session, or that sandbox was destroyed: restore the snapshot again",
                id.name
            );
            return Err(Error::new(Code::NotFound, message));
        };
        check_sandbox(profile, config, &opened)?;
        Ok(self.new_workspace(profile, config, id, opened.sandbox, Some(record.snapshot)))
    }

    /// Closes a workspace. Keeps its sandbox, which sleeps when it is idle, or destroys it with `destroy_on_close`.
    ///
    /// # Errors
    /// [`Code::NotFound`] if the project does not declare it, and the errors of the provider.
    pub async fn close(&self, name: &str) -> Result<()> {
        let (_, config) = self.find_config(name)?;
        let known = self.registry.find_or_insert(name);
        let mut attached = known.attached.lock().await;
        let closed = self.destroy_if_configured(&config).await;
        *attached = false;
        match closed {
            Ok(destroyed) => {
                event!(info "workspace closed" { workspace = name, destroyed = destroyed });
                known.set_state(Phase::Closed, None);
                Ok(())
            }
            Err(error) => Err(known.record_failure(name, error)),
        }
    }

    /// Closes all workspaces.
    ///
    /// # Errors
    /// The first error, after all others have been tried.
    pub async fn close_all(&self) -> Result<()> {
        let mut closed = Ok(());
        for name in self.names() {
            closed = closed.and(self.close(&name).await);
        }
        closed
    }

    /// Forgets the last error and the state of a workspace, and attaches it again. Its files are kept.
    ///
    /// # Errors
    /// As [`Workspaces::get`].
    pub async fn reset(&self, name: &str) -> Result<Workspace<P::Sandbox>> {
        self.find_config(name)?;
        let known = self.registry.find_or_insert(name);
        *known.attached.lock().await = false;
        known.set_state(Phase::Declared, None);
        self.attach(name, Attach::Open).await
    }

    /// Describes the declared workspaces.
    pub fn describe(&self) -> Vec<WorkspaceState> {
        let state = |(profile, config): (&Profile, WorkspaceConfig)| {
            let (phase, last_error) = lock(&self.registry.find_or_insert(&config.name).state).clone();
            WorkspaceState {
                capabilities: config.capabilities(),
                shared: config.id.is_some(),
                profile: profile.name.clone(),
                name: config.name,
                dir: config.dir,
                phase,
                last_error,
            }
        };
        self.declared_configs().map(state).collect()
    }

    fn declared_configs(&self) -> impl Iterator<Item = (&Profile, WorkspaceConfig)> {
        let profiles = self.session.profiles().list().iter();
        profiles.filter_map(|profile| Some((profile, profile.served_workspace()?)))
    }

    fn find_config(&self, name: &str) -> Result<(&Profile, WorkspaceConfig)> {
        self.declared_configs().find(|(_, config)| config.name == name).ok_or_else(|| {
            let names = self.names().join(", ");
            let message = format!("this project does not declare it: its workspaces are {names}");
            WorkspaceFailed { workspace: name.to_owned(), error: Error::new(Code::NotFound, message) }
        })
    }

    async fn attach(&self, name: &str, how: Attach) -> Result<Workspace<P::Sandbox>> {
        let (profile, config) = self.find_config(name)?;
        let known = self.registry.find_or_insert(name);
        let attached = *known.attached.lock().await;
        if attached && let Ok(Some(workspace)) = self.find_attached(profile, &config).await {
            return Ok(workspace);
        }
        let mut attached = known.attached.lock().await;
        let reached = self.attach_sandbox(profile, &config, how).await;
        *attached = reached.is_ok();
        match reached {
            Ok(workspace) => {
                known.set_state(Phase::Open, None);
                Ok(workspace)
            }
            Err(error) => Err(known.record_failure(name, error)),
        }
    }

    /// Returns a workspace that this process has attached before, unless it was destroyed meanwhile.
    async fn find_attached(
        &self,
        profile: &Profile,
        config: &WorkspaceConfig,
    ) -> crate::Result<Option<Workspace<P::Sandbox>>> {
        let id = config.sandbox_id(self.session.id())?;
        self.session.note_use(&id.name);
        let Some(opened) = self.session.provider().find(&id).await? else { return Ok(None) };
        check_sandbox(profile, config, &opened)?;
        Ok(Some(self.new_workspace(profile, config, id, opened.sandbox, None)))
    }

    async fn attach_sandbox(
        &self,
        profile: &Profile,
        config: &WorkspaceConfig,
        how: Attach,
    ) -> crate::Result<Workspace<P::Sandbox>> {
        let id = config.sandbox_id(self.session.id())?;
        self.session.note_use(&id.name);
        if let Some(shared) = &config.id {
            event!(warn "shared workspace id detected" { workspace = config.name.as_str(), id = shared.as_str() });
        }
        let start = Start::now();
        let spread = how != Attach::Open;
        let _session = self.registry.gate.acquire_pass(false).await?;
        let gate = self.session.provider().open_limits().profile_gate(&profile.name, config.max_instances);
        let _provider = gate.acquire_pass(spread).await?;
        let opened = self.find_or_create(profile, &id, how).await?;
        check_sandbox(profile, config, &opened)?;
        self.check_snapshots(config, &id)?;
        let Opened { sandbox, created, .. } = opened;
        let mut retry = Retry::new();
        let root = Place { root: "/", path: &config.dir };
        while let Err(error) = sandbox.make_dir(root).await {
            if !retry.wait_after(&error).await {
                return Err(no_directory(config, &error));
            }
        }
        let duration_ms = millis(start.elapsed());
        let (workspace, image) = (config.name.as_str(), profile.name.as_str());
        if created {
            event!(info "workspace opened" { workspace = workspace, profile = image, duration_ms = duration_ms });
        } else {
            event!(info "workspace resolved" { workspace = workspace, profile = image, duration_ms = duration_ms });
        }
        Ok(self.new_workspace(profile, config, id, sandbox, None))
    }

    fn new_workspace(
        &self,
        profile: &Profile,
        config: &WorkspaceConfig,
        id: SandboxId,
        sandbox: P::Sandbox,
        parent: Option<SnapshotId>,
    ) -> Workspace<P::Sandbox> {
        let (session, profile) = (self.session.clone(), profile.clone());
        let config = Arc::new(config.clone());
        let source = Source { session, profile, config, id, sandbox: Some(sandbox.clone()), parent };
        Workspace::new(source, sandbox)
    }

    /// Checks that there is a place for the archives of snapshots, if they are declared.
    fn check_snapshots(&self, config: &WorkspaceConfig, id: &SandboxId) -> crate::Result<()> {
        let Some(snapshot) = &config.snapshot else { return Ok(()) };
        let checked = self.session.provider().snapshot_store(&id.session, snapshot.bucket.as_deref());
        checked.and_then(|store| store.check_blobs()).map_err(|error| {
            let message = format!("it declares the capability `snapshot`, but {}", error.message);
            Error::new(error.code, message).with_source(error)
        })
    }

    /// Finds the sandbox of a workspace, or creates it. Retries transient errors.
    async fn find_or_create(
        &self,
        profile: &Profile,
        id: &SandboxId,
        how: Attach,
    ) -> crate::Result<Opened<P::Sandbox>> {
        let provider = self.session.provider();
        let mut retry = Retry::new();
        loop {
            let reached = match provider.find(id).await {
                Ok(Some(opened)) => return Ok(opened),
                Ok(None) if how == Attach::Resolve => {
                    let message = "it was never opened in this session, or it was destroyed: open it";
                    return Err(Error::new(Code::NotFound, message));
                }
                Ok(None) => {
                    let sleep_after = profile.sleep_after.unwrap_or(SLEEP_AFTER);
                    provider.open(id, &Settings { profile: profile.clone(), sleep_after, size: None }).await
                }
                Err(error) => Err(error),
            };
            match reached {
                Err(error) if retry.wait_after(&error).await => {}
                reached => return reached,
            }
        }
    }

    /// Destroys the sandbox of a workspace if its configuration says so. Returns whether it was destroyed.
    async fn destroy_if_configured(&self, config: &WorkspaceConfig) -> crate::Result<bool> {
        let id = config.sandbox_id(self.session.id())?;
        if !config.destroy_on_close {
            return Ok(false);
        }
        match self.session.provider().find(&id).await? {
            Some(opened) => opened.sandbox.destroy().await.map(|()| true),
            None => Ok(false),
        }
    }
}

/// Checks that a sandbox is that of the workspace, and that it has the declared capabilities.
fn check_sandbox<S: Sandbox>(
    profile: &Profile,
    config: &WorkspaceConfig,
    opened: &Opened<S>,
) -> crate::Result<()> {
    if opened.profile != profile.name {
        let message = format!(
            "the session already has a sandbox `{}` with the image `{}`: give the workspace another name",
            config.name, opened.profile
        );
        return Err(Error::new(Code::AlreadyExists, message));
    }
    let programs = [Capability::Shell, Capability::Code];
    let needs = config.capabilities().into_iter().find(|capability| programs.contains(capability));
    if let Some(needs) = needs.filter(|_| !opened.sandbox.capabilities().exec) {
        let message = format!(
            "it declares the capability `{needs}`, but this provider cannot run programs: use another provider, or remove \
             `{needs}` from `workspace(..)`"
        );
        return Err(Error::new(Code::Unsupported, message));
    }
    Ok(())
}

fn no_directory(config: &WorkspaceConfig, error: &Error) -> Error {
    let message = format!(
        "its directory `{}` cannot be created: {}. Create it in the image, or set another `dir` in `workspace(..)`",
        config.dir, error.message
    );
    Error::new(error.code, message)
}

impl<P: Provider> Clone for Workspaces<P> {
    fn clone(&self) -> Self {
        Workspaces { session: self.session.clone(), registry: Arc::clone(&self.registry) }
    }
}

/// Ignores poisoning: a panic elsewhere does not affect the data.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Known {
    /// Records an error.
    fn record_failure(&self, name: &str, error: Error) -> WorkspaceFailed {
        event!(warn "workspace failed" { workspace = name, code = error.code.as_str(), error = error.message.as_str() });
        self.set_state(Phase::Failed, Some(error.clone()));
        WorkspaceFailed { workspace: name.to_owned(), error }
    }
}
