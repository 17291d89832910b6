//! The state directory of a project: the files and registry of its sandboxes, and the sockets of their supervisors.
//!
//! It is outside the project, because files in a repository, such as links, must not decide where sandboxes write.

use std::ffi::OsString;
use std::fmt;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use koze_core::{Code, Error, Result, SessionId};
use sha2::{Digest, Sha256};

use super::short_path::ShortPath;
use crate::home;
use crate::provider::{self, EngineKind, Secrets};
use crate::trust::{self, Distrust};

/// The source of an error about a state directory.
#[derive(Debug)]
struct AboutState {
    dir: PathBuf,
}

impl fmt::Display for AboutState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the state directory is {}", self.dir.display())
    }
}

impl std::error::Error for AboutState {}

/// Returns which state directory an error is about, as a sentence for people. The message of the error does not contain
/// the path, because a model may read it.
pub(crate) fn about(error: &Error) -> Option<String> {
    let source = std::error::Error::source(error)?;
    source.downcast_ref::<AboutState>().map(ToString::to_string)
}

/// The state directory of a project.
#[derive(Debug, Clone)]
pub struct State {
    dir: PathBuf,
    /// The package, if the directory's place depends on it.
    project: Option<PathBuf>,
    /// The engine that the command names for new sandboxes.
    engine: Option<EngineKind>,
}

/// The file that names the package of a state directory.
const PROJECT: &str = "project";
/// The file that names the engine of a session's containers.
const ENGINE: &str = "engine";
/// The directory of the sessions.
const SESSIONS: &str = "sessions";
/// The directory of the tenants of `koze serve`.
const TENANTS: &str = "tenants";

impl State {
    /// Returns the state directory of a project, below `$XDG_STATE_HOME` or `~/.local/state`.
    ///
    /// # Errors
    /// Returns [`Code::Unavailable`] if neither that variable nor `HOME` is set, and the errors of [`State::at`].
    pub fn of(project: &Path) -> Result<Self> {
        let text = "neither XDG_STATE_HOME nor HOME is set, so there is no directory for sandboxes: choose one with --state";
        let home = home::dir().ok_or_else(|| Error::new(Code::Unavailable, text))?;
        let project = fs::canonicalize(project).unwrap_or_else(|_| project.to_owned());
        let name = project.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let name = format!("{name}-{}", short_hash(project.as_os_str().as_encoded_bytes()));
        Ok(State { project: Some(project), ..Self::at(home.join(name))? })
    }

    /// Returns the state directories of all packages.
    ///
    /// # Errors
    /// Returns [`Code::Unavailable`] if they cannot be listed.
    pub fn of_all_projects() -> Result<Vec<PathBuf>> {
        let Some(home) = home::dir() else { return Ok(Vec::new()) };
        let mut dirs: Vec<_> = list_directory(&home)?.into_iter().map(|entry| entry.path()).collect();
        dirs.retain(|dir| dir.join(SESSIONS).is_dir());
        dirs.sort();
        Ok(dirs)
    }

    /// Returns the package of this directory, if a koze that records it has used it.
    pub fn project(&self) -> Option<PathBuf> {
        let recorded = || Some(PathBuf::from(OsString::from_vec(fs::read(self.dir.join(PROJECT)).ok()?)));
        self.project.clone().or_else(recorded)
    }

    /// Returns a state directory at a given path.
    ///
    /// # Errors
    /// Returns [`Code::PermissionDenied`] if another user owns it, or can write to it or to a parent directory.
    pub fn at(dir: PathBuf) -> Result<Self> {
        let state = State { dir, project: None, engine: None };
        state.check_trust().map_err(|why| Error::new(Code::PermissionDenied, why.to_string()))?;
        Ok(state)
    }

    /// Returns the state directory of a tenant, below this one: its sessions, its journal and its secrets are its own.
    ///
    /// # Errors
    /// As [`State::at`].
    pub fn of_tenant(&self, tenant: &str) -> Result<Self> {
        let dir = self.dir.join(TENANTS).join(short_hash(tenant.as_bytes()));
        Ok(State { engine: self.engine, ..Self::at(dir)? })
    }

    /// Returns a state directory that the starting command has checked. [`State::make`] checks it again.
    pub(crate) fn handed(dir: PathBuf) -> Self {
        State { dir, project: None, engine: None }
    }

    /// Checks that the existing part of the path belongs to this user alone.
    fn check_trust(&self) -> std::result::Result<(), Distrust> {
        trust::way_to(&self.dir)?;
        trust::inside(&self.supervisors())?;
        trust::inside(&self.sessions_dir())
    }

    /// Creates the directory for this user alone.
    ///
    /// # Errors
    /// Returns [`Code::Unavailable`] if it cannot be created, and [`Code::PermissionDenied`] if another user created it
    /// first. The messages do not contain the path, because a model may read them.
    pub fn make(&self) -> Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(self.supervisors()).map_err(
            |error: io::Error| {
                let text = format!(
                    "the state directory cannot be created: {error}. Choose another one with --state"
                );
                Error::new(Code::Unavailable, text).with_source(error)
            },
        )?;
        // In a directory that every user can write to, another user may have created it since the first check.
        self.check_trust().map_err(|why| Error::new(Code::PermissionDenied, trust::changed(&why)))?;
        if let Some(project) = &self.project {
            // Only for `koze ps --all-projects`, so errors are ignored.
            let _ = fs::write(self.dir.join(PROJECT), project.as_os_str().as_bytes());
        }
        Ok(())
    }

    /// Returns whether a session has ever had sandboxes.
    pub fn has(&self, session: &SessionId) -> bool {
        self.sandboxes(session).is_dir()
    }

    /// Adds to an error that it is about this directory, for [`about`].
    pub(crate) fn named_in(&self, error: Error) -> Error {
        error.with_source(AboutState { dir: self.dir.clone() })
    }

    /// Returns the path of the directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Sets the engine in whose containers new sandboxes run.
    #[must_use]
    pub(crate) fn with_engine(self, engine: Option<EngineKind>) -> Self {
        State { engine: engine.or(self.engine), ..self }
    }

    /// Returns the engine in whose containers the sandboxes of a session run, if they are no namespaces. All sandboxes of a
    /// session run in the same way: those that exist decide.
    ///
    /// # Errors
    /// Returns [`Code::InvalidInput`] if the command names another engine, and [`Code::Unavailable`] if the directory cannot
    /// be read.
    pub(crate) fn engine_of(&self, session: &SessionId) -> Result<Option<EngineKind>> {
        let dir = self.sandboxes(session);
        let wanted = self.engine.or_else(provider::default_engine);
        let in_use = if provider::has_containers(&dir)? {
            self.recorded_engine(session).or_else(provider::default_engine)
        } else if wanted.is_none() || provider::has_namespaces(&dir)? {
            None
        } else {
            return Ok(wanted);
        };
        match (self.engine, in_use) {
            (Some(wanted), in_use) if in_use != Some(wanted) => {
                let place = in_use
                    .map_or("namespaces of this machine".to_owned(), |kind| format!("containers of {kind}"));
                let message = format!(
                    "the sandboxes of the session `{}` run in {place}: leave out `--engine`, use another `--session`, or destroy them with `koze destroy --all`",
                    session.session()
                );
                Err(Error::new(Code::InvalidInput, message))
            }
            (_, in_use) => Ok(in_use),
        }
    }

    fn recorded_engine(&self, session: &SessionId) -> Option<EngineKind> {
        let name = fs::read_to_string(self.sandboxes(session).join(ENGINE)).ok()?;
        EngineKind::from_program(name.trim())
    }

    /// Records the engine of a session's sandboxes.
    ///
    /// # Errors
    /// Returns [`Code::Unavailable`] if the directory cannot be written to.
    pub(crate) fn record_engine(&self, session: &SessionId, engine: EngineKind) -> Result<()> {
        let dir = self.sandboxes(session);
        let written = fs::create_dir_all(&dir).and_then(|()| fs::write(dir.join(ENGINE), engine.program()));
        written.map_err(|error| {
            let text = format!("the engine of this session cannot be recorded: {error}");
            Error::new(Code::Unavailable, text).with_source(error)
        })
    }

    /// Returns the directory in which the local provider keeps the sandboxes of a session. Each session has its own,
    /// because it has its own supervisor.
    pub fn sandboxes(&self, session: &SessionId) -> PathBuf {
        self.sessions_dir().join(stem(session))
    }

    /// Returns those directories of all sessions.
    ///
    /// # Errors
    /// Returns [`Code::Unavailable`] if the directory cannot be read.
    pub fn sessions(&self) -> Result<Vec<PathBuf>> {
        Ok(list_directory(&self.sessions_dir())?.into_iter().map(|entry| entry.path()).collect())
    }

    /// Returns the secrets of the project's scripts, which all sessions share.
    pub fn secrets(&self) -> Secrets {
        Secrets::at(self.dir())
    }

    /// Returns the file of the journal of tool calls, which all sessions share.
    pub fn journal(&self) -> PathBuf {
        self.dir.join("journal.sqlite")
    }

    fn sessions_dir(&self) -> PathBuf {
        self.dir.join(SESSIONS)
    }

    /// Returns the directory of the sockets.
    pub(super) fn supervisors(&self) -> PathBuf {
        self.dir.join("supervisors")
    }

    /// Returns the socket of a session's supervisor.
    pub(super) fn socket(&self, session: &SessionId) -> PathBuf {
        self.supervisors().join(socket_name(session))
    }

    /// Returns a short path of the socket, because the paths of sockets are limited.
    pub(super) fn short_socket(&self, session: &SessionId) -> io::Result<ShortPath> {
        ShortPath::new(&self.supervisors(), &socket_name(session))
    }
}

/// Lists a directory, which may be missing.
fn list_directory(dir: &Path) -> Result<Vec<fs::DirEntry>> {
    let unreadable = |error: io::Error| {
        Error::new(Code::Unavailable, format!("the state directory cannot be read: {}", error.kind()))
            .with_source(error)
    };
    match fs::read_dir(dir) {
        Ok(entries) => entries.map(|entry| entry.map_err(unreadable)).collect(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(unreadable(error)),
    }
}

fn socket_name(session: &SessionId) -> String {
    format!("{}.socket", stem(session))
}

/// Returns the file name stem of a session. The session's name itself may be long and contain any character.
pub(super) fn stem(session: &SessionId) -> String {
    short_hash(session.key().as_bytes())
}

/// Hashes a text to sixteen hexadecimal digits.
fn short_hash(text: &[u8]) -> String {
    Sha256::digest(text).iter().take(8).fold(String::new(), |mut name, byte| {
        use std::fmt::Write;
        let _ = write!(name, "{byte:02x}");
        name
    })
}
