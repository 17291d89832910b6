//! The state directory of a project: its sandboxes' files and registry, and the sockets of their supervisors.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use koze::{Code, Error, Result, SessionId};
use sha2::{Digest, Sha256};

/// The directory's name, in the project's.
pub const NAME: &str = ".koze";

/// The state directory of a project.
#[derive(Debug, Clone)]
pub struct State {
    dir: PathBuf,
}

impl State {
    /// That of a project.
    pub fn of(project: &Path) -> Self {
        State { dir: project.join(NAME) }
    }

    /// One that lies elsewhere.
    pub fn at(dir: PathBuf) -> Self {
        State { dir }
    }

    /// Makes it, for this user alone, and keeps it out of git.
    ///
    /// # Errors
    /// [`Code::Unavailable`] where it cannot be made. A model may read it, so it has the directory's name alone.
    pub fn make(&self) -> Result<()> {
        let make = || {
            DirBuilder::new().recursive(true).mode(0o700).create(self.supervisors())?;
            let ignore = self.dir.join(".gitignore");
            if ignore.exists() { Ok(()) } else { fs::write(ignore, "*\n") }
        };
        make().map_err(|error: io::Error| {
            let name = self.dir.file_name().unwrap_or_default().display();
            let text = format!(
                "the state directory `{name}` cannot be made: {error}. Name another one with --state"
            );
            Error::new(Code::Unavailable, text)
        })
    }

    /// Whether it was ever made.
    pub fn exists(&self) -> bool {
        self.sandboxes().is_dir()
    }

    /// The directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Where the local provider keeps its sandboxes.
    pub fn sandboxes(&self) -> PathBuf {
        self.dir.join("sandboxes")
    }

    /// Where the sockets are.
    pub(super) fn supervisors(&self) -> PathBuf {
        self.dir.join("supervisors")
    }
}

/// What the files of a session's supervisor are called: a session's name may hold anything, and be long.
pub(super) fn stem(session: &SessionId) -> String {
    Sha256::digest(session.key()).iter().take(8).fold(String::new(), |mut name, byte| {
        use std::fmt::Write;
        let _ = write!(name, "{byte:02x}");
        name
    })
}
