//! What a workspace is declared with.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::language::Language;
use crate::error::{Code, Error, Result};
use crate::id::{SandboxId, SandboxName, SessionId};

/// The directory of a workspace unless its configuration names another one.
pub const DIRECTORY: &str = "/workspace";
/// The longest time that a command may run unless the configuration sets one.
pub const MAX_DURATION: Duration = Duration::from_mins(10);

/// The maximum number of snapshots of a session unless its configuration sets one.
pub const MAX_SNAPSHOTS: u32 = 20;
/// The maximum size of a session's snapshots in bytes unless its configuration sets one.
pub const MAX_SNAPSHOT_BYTES: u64 = 10_000_000_000;

/// What a workspace can be used for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Capability {
    /// Files below its directory.
    Fs,
    /// Commands in its sandbox.
    Shell,
    /// Code in its sandbox.
    Code,
    /// Snapshots of its directory.
    Snapshot,
}

impl Capability {
    /// Returns the capability's name in attributes.
    pub fn name(self) -> &'static str {
        match self {
            Capability::Fs => "fs",
            Capability::Shell => "shell",
            Capability::Code => "code",
            Capability::Snapshot => "snapshot",
        }
    }
}

impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The configuration of a workspace: what `workspace(..)` in an attribute declares.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkspaceConfig {
    /// Its name, which is part of the names of its tools. It must be a valid [`SandboxName`].
    pub name: String,
    /// Its directory: an absolute path, to which all operations on files are confined.
    pub dir: String,
    /// The session that owns its sandbox, in place of the current one. Needs `share_across_sessions`.
    #[serde(default)]
    pub id: Option<String>,
    /// Whether all sessions of a tenant may share it.
    #[serde(default)]
    pub share_across_sessions: bool,
    /// Whether closing it destroys its sandbox.
    #[serde(default)]
    pub destroy_on_close: bool,
    /// The capability `shell`, if it is declared.
    #[serde(default)]
    pub shell: Option<ShellConfig>,
    /// The capability `code`, if it is declared.
    #[serde(default)]
    pub code: Option<CodeConfig>,
    /// The capability `snapshot`, if it is declared.
    #[serde(default)]
    pub snapshot: Option<SnapshotConfig>,
    /// The directory that a snapshot archives, as an absolute path: by default, that of the workspace.
    #[serde(default)]
    pub snapshot_dir: Option<String>,
    /// Whether agents can start processes that keep running, with the capability `shell`. The profile of its sandbox decides.
    #[serde(default = "has_processes")]
    pub processes: bool,
    /// How many of its sandboxes may run at once. It is the default limit of workspaces that are opened at the same time.
    #[serde(default)]
    pub max_instances: Option<u32>,
}

fn has_processes() -> bool {
    true
}

/// The configuration of the capability `shell`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShellConfig {
    /// The programs that commands may run; `None` means any.
    #[serde(default)]
    pub allow: Option<Vec<String>>,
    /// The longest time that a command may run.
    pub max_duration: Duration,
}

impl Default for ShellConfig {
    fn default() -> Self {
        ShellConfig { allow: None, max_duration: MAX_DURATION }
    }
}

/// The configuration of the capability `code`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CodeConfig {
    /// The languages of code.
    pub languages: Vec<Language>,
    /// Whether there are contexts, which keep variables.
    #[serde(default)]
    pub stateful: bool,
}

impl Default for CodeConfig {
    fn default() -> Self {
        CodeConfig { languages: Language::ALL.to_vec(), stateful: false }
    }
}

/// The configuration of the capability `snapshot`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnapshotConfig {
    /// The binding of the R2 bucket for archives in a Worker. Other providers have a place of their own.
    #[serde(default)]
    pub bucket: Option<String>,
    /// Whether snapshots of other sessions of the tenant can be restored.
    #[serde(default)]
    pub allow_cross_session: bool,
    /// The maximum number of snapshots in a session, at most 1000.
    pub max_count: u32,
    /// The maximum size of all archives of a session in bytes.
    pub max_bytes: u64,
    /// How long a snapshot is kept; `None` means until it is removed.
    #[serde(default)]
    pub expires_after: Option<Duration>,
}

impl SnapshotConfig {
    pub(super) const DEFAULT: Self = SnapshotConfig {
        bucket: None,
        allow_cross_session: false,
        max_count: MAX_SNAPSHOTS,
        max_bytes: MAX_SNAPSHOT_BYTES,
        expires_after: None,
    };
}

impl Default for SnapshotConfig {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl WorkspaceConfig {
    /// Creates a configuration with defaults: the directory `/workspace`, the capability `fs`, and a sandbox of its own for
    /// every session.
    pub fn new(name: impl Into<String>) -> Self {
        WorkspaceConfig {
            name: name.into(),
            dir: DIRECTORY.to_owned(),
            id: None,
            share_across_sessions: false,
            destroy_on_close: false,
            shell: None,
            code: None,
            snapshot: None,
            snapshot_dir: None,
            processes: true,
            max_instances: None,
        }
    }

    /// Returns the declared capabilities.
    pub fn capabilities(&self) -> Vec<Capability> {
        let shell = self.shell.as_ref().map(|_| Capability::Shell);
        let code = self.code.as_ref().map(|_| Capability::Code);
        let snapshot = self.snapshot.as_ref().map(|_| Capability::Snapshot);
        [Some(Capability::Fs), shell, code, snapshot].into_iter().flatten().collect()
    }

    /// Returns the ID of the sandbox in a session. Checks the configuration, because it can be written by hand.
    ///
    /// # Errors
    /// [`Code::InvalidInput`] if a value is not valid, or if sessions would share the sandbox and it is not said that they may.
    pub(super) fn sandbox_id(&self, session: &SessionId) -> Result<SandboxId> {
        let name = SandboxName::new(&self.name)?;
        let invalid = |message: String| Err(Error::new(Code::InvalidInput, message));
        let plain = |rest: &str| rest.split('/').all(|part| !matches!(part, "" | "." | ".."));
        for dir in [Some(&self.dir), self.snapshot_dir.as_ref()].into_iter().flatten() {
            if dir.contains('\0') || !dir.strip_prefix('/').is_some_and(plain) {
                return invalid(format!(
                    "`{dir}` is not a valid workspace directory: use an absolute path below `/`, without `.` and `..`"
                ));
            }
        }
        match (&self.id, self.share_across_sessions) {
            (None, _) => Ok(SandboxId { session: session.clone(), name }),
            (Some(id), true) => Ok(SandboxId { session: SessionId::new(session.tenant(), id)?, name }),
            (Some(id), false) => invalid(format!(
                "the workspace has the explicit id `{id}`: every session would use the same sandbox, so one user could read \
                 and change the files of another (a cross-tenant leak). Remove `id`, or set `share_across_sessions` if that \
                 is intended"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_explicit_id_needs_consent() {
        let session = SessionId::new("tenant", "a").unwrap();
        let own = WorkspaceConfig::new("box");
        assert_eq!(own.sandbox_id(&session).unwrap().session, session);
        let explicit = WorkspaceConfig { id: Some("common".into()), ..own };
        let refused = explicit.sandbox_id(&session).unwrap_err();
        assert_eq!(refused.code, Code::InvalidInput);
        assert!(refused.message.contains("cross-tenant"), "{refused}");
        let shared = WorkspaceConfig { share_across_sessions: true, ..explicit };
        let id = shared.sandbox_id(&session).unwrap();
        assert_eq!((id.session.tenant(), id.session.session()), ("tenant", "common"));
        let elsewhere = shared.sandbox_id(&SessionId::new("other", "a").unwrap()).unwrap();
        assert_ne!(elsewhere, id, "tenants never share a workspace");
    }

    #[test]
    fn directories_are_absolute_and_plain() {
        let session = SessionId::new("tenant", "a").unwrap();
        for dir in ["", "/", "work", "/a/", "/a//b", "/a/..", "/./a", "/a\0"] {
            let config = WorkspaceConfig { dir: dir.to_owned(), ..WorkspaceConfig::new("box") };
            assert_eq!(config.sandbox_id(&session).unwrap_err().code, Code::InvalidInput, "{dir:?}");
            let config =
                WorkspaceConfig { snapshot_dir: Some(dir.to_owned()), ..WorkspaceConfig::new("box") };
            assert_eq!(config.sandbox_id(&session).unwrap_err().code, Code::InvalidInput, "{dir:?}");
        }
        for name in ["", "Box", "my_box", "a__b", "-a"] {
            assert!(WorkspaceConfig::new(name).sandbox_id(&session).is_err(), "{name:?}");
        }
    }
}
