//! A workspace that is open.

use std::sync::Arc;

use super::snapshot::Source;
use super::{
    Capability, Result, WorkspaceCode, WorkspaceConfig, WorkspaceFailed, WorkspaceFs, WorkspaceShell,
    WorkspaceSnapshots,
};
use crate::error::{Code, Error};
use crate::id::SandboxId;
use crate::progress::Progress;
use crate::provider::Provider;
use crate::sandbox::Sandbox;

/// An open workspace. A clone is the same one.
#[derive(Debug, Clone)]
pub struct Workspace<S> {
    config: Arc<WorkspaceConfig>,
    id: SandboxId,
    fs: WorkspaceFs<S>,
    shell: WorkspaceShell<S>,
    code: WorkspaceCode<S>,
    snapshots: WorkspaceSnapshots,
    sandbox: S,
    /// Receives what the programs of a tool print, if anything does.
    progress: Option<Progress>,
}

impl<S: Sandbox> Workspace<S> {
    /// Builds all adapters; the declared capabilities decide which of them are returned.
    pub(super) fn new<P: Provider<Sandbox = S>>(source: Source<P>, sandbox: S) -> Self {
        let (config, id) = (Arc::clone(&source.config), source.id.clone());
        let fs = WorkspaceFs::new(sandbox.clone(), config.dir.as_str().into());
        let code = WorkspaceCode::new(
            sandbox.clone(),
            config.code.clone().unwrap_or_default(),
            config.dir.as_str().into(),
        );
        let shell = WorkspaceShell::new(
            sandbox.clone(),
            config.shell.clone().unwrap_or_default(),
            config.dir.as_str().into(),
        );
        let snapshots = WorkspaceSnapshots::new(source);
        Workspace { config, id, fs, shell, code, snapshots, sandbox, progress: None }
    }

    /// Returns the same workspace for a tool call that reports its progress.
    pub(crate) fn with_progress(self, progress: Option<&Progress>) -> Self {
        Workspace { progress: progress.cloned(), ..self }
    }

    pub(super) fn sandbox(&self) -> &S {
        &self.sandbox
    }

    pub(crate) fn progress(&self) -> Option<&Progress> {
        self.progress.as_ref()
    }

    /// Returns its name.
    pub fn name(&self) -> &str {
        &self.config.name
    }

    /// Returns its configuration.
    pub fn config(&self) -> &WorkspaceConfig {
        &self.config
    }

    /// Returns the ID of its sandbox.
    pub fn id(&self) -> &SandboxId {
        &self.id
    }

    /// Returns its files. They are confined to its directory: the tools use the same adapter.
    ///
    /// # Errors
    /// None in this version, in which every workspace has files.
    pub fn fs(&self) -> Result<&WorkspaceFs<S>> {
        self.check_declared(Capability::Fs)?;
        Ok(&self.fs)
    }

    /// Returns its shell, with the allowlist and the longest duration of its configuration: the tools use the same adapter.
    ///
    /// # Errors
    /// [`Code::Unsupported`] if the workspace does not declare the capability.
    pub fn shell(&self) -> Result<&WorkspaceShell<S>> {
        self.check_declared(Capability::Shell)?;
        Ok(&self.shell)
    }

    /// Returns its code, with the languages of its configuration: the tools use the same adapter.
    ///
    /// # Errors
    /// [`Code::Unsupported`] if the workspace does not declare the capability.
    pub fn code(&self) -> Result<&WorkspaceCode<S>> {
        self.check_declared(Capability::Code)?;
        Ok(&self.code)
    }

    /// Returns its snapshots: the tools use the same adapter.
    ///
    /// # Errors
    /// [`Code::Unsupported`] if the workspace does not declare the capability.
    pub fn snapshot(&self) -> Result<&WorkspaceSnapshots> {
        self.check_declared(Capability::Snapshot)?;
        Ok(&self.snapshots)
    }

    fn check_declared(&self, capability: Capability) -> Result<()> {
        if self.config.capabilities().contains(&capability) {
            return Ok(());
        }
        Err(undeclared_error(capability, &self.config.name))
    }
}

/// Returns the error for a capability that a workspace does not declare.
pub(super) fn undeclared_error(capability: Capability, workspace: &str) -> WorkspaceFailed {
    let message = format!(
        "it does not declare the capability `{capability}`: add `{capability}` to `workspace(..)`, or `{capability}` to its \
         `WorkspaceConfig`"
    );
    WorkspaceFailed { workspace: workspace.to_owned(), error: Error::new(Code::Unsupported, message) }
}
