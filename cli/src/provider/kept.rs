//! What a session keeps where sandboxes are containers only: its store, its secrets and its journal. It has no sandboxes of its
//! own, and no scripts, which need namespaces.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use koze_core::id::SandboxId;
use koze_core::journal::UnmaskedCall;
use koze_core::provider::{Info, Opened, Profile, Provider, ScriptProvider, Settings};
use koze_core::script::Secrets as Values;
use koze_core::tool::programs::Programs;
use koze_core::workspace::OpenLimits;
use koze_core::{Code, Error, Profiles, Result, SessionId};
use koze_engine::EngineSandbox;
use koze_state::{CallJournal, SessionStore, Stores, runtime};

use super::engine::{EngineKind, list_containers, survey_containers};
use super::{MachineProvider, Measured, Secrets, Surveyed};

/// The provider of what a session keeps, if its sandboxes are containers.
pub(super) type Base = Kept;

/// What a session keeps.
#[derive(Debug, Clone)]
pub(crate) struct Kept {
    stores: Arc<Stores>,
    secrets: Option<Arc<Secrets>>,
    journal: Option<Arc<CallJournal>>,
    open_limits: OpenLimits,
}

impl Kept {
    /// Opens the directory of a session. Only this user can access it.
    fn new(dir: &Path) -> Result<Self> {
        let unusable = |error: io::Error| {
            let message = format!("the state directory cannot be used: {}", error.kind());
            Error::new(Code::Unavailable, message).with_source(error)
        };
        DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(unusable)?;
        let dir = fs::canonicalize(dir).map_err(unusable)?;
        // No snapshot is kept as a layer here.
        let stores = Stores::new(dir, |_, _| Ok(()));
        Ok(Kept {
            stores: Arc::new(stores),
            secrets: None,
            journal: None,
            open_limits: OpenLimits::default(),
        })
    }
}

/// Opens what a session keeps.
pub(super) fn open_base(dir: &Path, secrets: Secrets, journal: PathBuf) -> Result<Kept> {
    let secrets = Arc::new(secrets);
    let journal = CallJournal::open(journal, Some(Arc::clone(&secrets)))?;
    Ok(Kept { secrets: Some(secrets), journal: Some(Arc::new(journal)), ..Kept::new(dir)? })
}

/// Fails: sandboxes are containers here.
pub(crate) fn open(_: &Path, _: Secrets, _: PathBuf) -> Result<impl MachineProvider + use<>> {
    Err::<Kept, _>(no_sandboxes())
}

fn no_sandboxes() -> Error {
    let message =
        "sandboxes of namespaces need Linux: choose containers with `--engine docker` or `--engine podman`";
    Error::new(Code::Unsupported, message)
}

/// Returns the engine of new sandboxes if the user names none.
#[expect(clippy::unnecessary_wraps, reason = "the same signature as with namespaces")]
pub(crate) fn default_engine() -> Option<EngineKind> {
    Some(EngineKind::find_installed())
}

/// Returns no directory: the engines have the images.
pub(crate) fn images_directory() -> Option<PathBuf> {
    None
}

/// Returns the images of the profiles, whose programs sandboxes have.
pub(crate) fn find_programs<'a>(profiles: impl IntoIterator<Item = &'a Profile>) -> Programs {
    let images = profiles.into_iter().map(|profile| profile.reference.clone()).collect();
    Programs { images, ..Programs::default() }
}

/// Opens the directory of a session, for its store only.
///
/// # Errors
/// If the directory cannot be used.
pub(super) fn open_directory(dir: &Path) -> Result<Base> {
    Kept::new(dir)
}

/// Returns that the directory of a session has no sandboxes of namespaces.
#[expect(clippy::unnecessary_wraps, reason = "the same signature as with namespaces")]
pub(crate) fn has_namespaces(_: &Path) -> Result<bool> {
    Ok(false)
}

/// Lists the sandboxes in the directory of a session, without starting anything.
///
/// # Errors
/// If the directory cannot be read.
pub(crate) fn list_sandboxes(dir: &Path) -> Result<Vec<(SessionId, Info)>> {
    list_containers(dir)
}

/// Describes the sandboxes in the directory of a session, without starting anything.
///
/// # Errors
/// If the directory cannot be read.
pub(crate) fn survey_sandboxes(dir: &Path) -> Result<Vec<Surveyed>> {
    survey_containers(dir)
}

impl Provider for Kept {
    type Sandbox = EngineSandbox;
    type Store = SessionStore;

    fn open_limits(&self) -> &OpenLimits {
        &self.open_limits
    }

    fn has_journal(&self) -> bool {
        self.journal.is_some()
    }

    fn keeps_pictures(&self) -> bool {
        self.journal.is_some()
    }

    fn record_call(&self, _: &SessionId, call: UnmaskedCall) {
        if let Some(journal) = &self.journal {
            journal.record(call);
        }
    }

    async fn open(&self, _: &SandboxId, _: &Settings) -> Result<Opened<EngineSandbox>> {
        Err(no_sandboxes())
    }

    async fn find(&self, _: &SandboxId) -> Result<Option<Opened<EngineSandbox>>> {
        Ok(None)
    }

    async fn list(&self, _: &SessionId) -> Result<Vec<Info>> {
        Ok(Vec::new())
    }

    fn store(&self, session: &SessionId) -> Result<SessionStore> {
        Ok(SessionStore::new(&self.stores, session))
    }
}

impl ScriptProvider for Kept {
    fn script_secrets(&self, _: &SessionId) -> Result<Values> {
        self.secrets.as_ref().map_or_else(|| Ok(Values::default()), |secrets| secrets.values())
    }
}

impl MachineProvider for Kept {
    async fn refresh(&self, _: &SessionId, _: &Profiles) -> Result<()> {
        Ok(())
    }

    async fn measure(&self, _: &SessionId) -> Result<Vec<Measured>> {
        Ok(Vec::new())
    }

    fn preview_port(&self) -> Option<u16> {
        None
    }

    async fn sleep(&self) -> Result<()> {
        let Some(journal) = self.journal.clone() else { return Ok(()) };
        runtime::run_blocking(move || {
            journal.flush();
            Ok(())
        })
        .await
    }
}
