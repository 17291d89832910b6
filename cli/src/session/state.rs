//! The state directory of a project: the files and registry of its sandboxes, and the sockets of their supervisors.
//!
//! It does not lie in the project: what comes with a repository, a link say, must not decide where sandboxes write.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use koze_core::{Code, Error, Result, SessionId};
use sha2::{Digest, Sha256};

use super::trust::{self, Distrust};

/// The state directory of a project.
#[derive(Debug, Clone)]
pub struct State {
    dir: PathBuf,
}

impl State {
    /// That of a project: below `$XDG_STATE_HOME`, or `~/.local/state`.
    ///
    /// # Errors
    /// [`Code::Unavailable`] where neither that variable nor `HOME` is set, and those of [`State::at`].
    pub fn of(project: &Path) -> Result<Self> {
        let named = |variable| std::env::var_os(variable).map(PathBuf::from).filter(|dir| dir.is_absolute());
        let home = named("XDG_STATE_HOME").or_else(|| Some(named("HOME")?.join(".local/state")));
        let text = "neither XDG_STATE_HOME nor HOME is set, so there is no directory for sandboxes: choose one with --state";
        let home = home.ok_or_else(|| Error::new(Code::Unavailable, text))?;
        let project = fs::canonicalize(project).unwrap_or_else(|_| project.to_owned());
        let name = project.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let name = format!("{name}-{}", hex(project.as_os_str().as_encoded_bytes()));
        Self::at(home.join("koze").join(name))
    }

    /// One that lies elsewhere.
    ///
    /// # Errors
    /// [`Code::PermissionDenied`] where another user owns it, or may write it or a directory above it.
    pub fn at(dir: PathBuf) -> Result<Self> {
        let state = State { dir };
        state.check().map_err(|why| Error::new(Code::PermissionDenied, why.to_string()))?;
        Ok(state)
    }

    /// One that the command which starts this program has checked. [`State::make`] checks it again.
    pub(crate) fn handed(dir: PathBuf) -> Self {
        State { dir }
    }

    /// Whether it is this user's alone, as far as it exists.
    fn check(&self) -> std::result::Result<(), Distrust> {
        trust::way_to(&self.dir)?;
        trust::inside(&self.supervisors())?;
        trust::inside(&self.sessions_dir())
    }

    /// Makes it, for this user alone.
    ///
    /// # Errors
    /// [`Code::Unavailable`] where it cannot be made, [`Code::PermissionDenied`] where another user was faster. A model may
    /// read them, so they do not say where.
    pub fn make(&self) -> Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(self.supervisors()).map_err(
            |error: io::Error| {
                let text = format!(
                    "the state directory cannot be created: {error}. Choose another one with --state"
                );
                Error::new(Code::Unavailable, text)
            },
        )?;
        // Somebody may have made it since it was looked at, where everybody may make directories.
        self.check().map_err(|why| Error::new(Code::PermissionDenied, trust::changed(&why)))
    }

    /// Whether a session has ever had sandboxes.
    pub fn has(&self, session: &SessionId) -> bool {
        self.sandboxes(session).is_dir()
    }

    /// The directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Where the local provider keeps the sandboxes of a session. Each has a directory of its own, for each has a
    /// supervisor of its own.
    pub fn sandboxes(&self, session: &SessionId) -> PathBuf {
        self.sessions_dir().join(stem(session))
    }

    /// The same of all sessions.
    ///
    /// # Errors
    /// [`Code::Unavailable`] where the directory cannot be read.
    pub fn sessions(&self) -> Result<Vec<PathBuf>> {
        let unreadable = |error: io::Error| {
            Error::new(Code::Unavailable, format!("the state directory cannot be read: {}", error.kind()))
        };
        match fs::read_dir(self.sessions_dir()) {
            Ok(entries) => {
                entries.map(|entry| Ok(entry.map_err(unreadable)?.path())).collect::<Result<Vec<_>>>()
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(unreadable(error)),
        }
    }

    fn sessions_dir(&self) -> PathBuf {
        self.dir.join("sessions")
    }

    /// Where the sockets are.
    pub(super) fn supervisors(&self) -> PathBuf {
        self.dir.join("supervisors")
    }

    /// The socket of a session's supervisor.
    pub(super) fn socket(&self, session: &SessionId) -> PathBuf {
        self.supervisors().join(socket_name(session))
    }

    /// The same by way of the directory's descriptor, for as long as that is kept: the path of a socket is 107 bytes at
    /// most. The directory is checked once it is open, so nobody can put another in its place.
    pub(super) fn short_socket(&self, session: &SessionId) -> io::Result<(File, String)> {
        let dir = File::open(self.supervisors())?;
        trust::opened(&dir)?;
        let path = format!("/proc/self/fd/{}/{}", dir.as_raw_fd(), socket_name(session));
        Ok((dir, path))
    }
}

fn socket_name(session: &SessionId) -> String {
    format!("{}.socket", stem(session))
}

/// What the files of a session are called: a session's name may hold anything, and be long.
pub(super) fn stem(session: &SessionId) -> String {
    hex(session.key().as_bytes())
}

/// Sixteen digits that stand for a text of any length.
fn hex(text: &[u8]) -> String {
    Sha256::digest(text).iter().take(8).fold(String::new(), |mut name, byte| {
        use std::fmt::Write;
        let _ = write!(name, "{byte:02x}");
        name
    })
}
