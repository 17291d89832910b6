//! What this machine knows of the sandboxes of a session: a file for each in the session's directory. It is read without the
//! engine, and says which containers are koze's.

use std::fs::{self, File, TryLockError};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use koze_core::error::{Code, Error, Result};
use koze_core::id::{SandboxId, SandboxName, SessionId};
use koze_core::provider::Settings;
use koze_core::sandbox::EndedPrograms;
use koze_core::time::now;
use serde::{Deserialize, Serialize};

use crate::shared::short_hash;

/// The directory of the records, below that of the session.
const DIRECTORY: &str = "containers";
/// What begins the name of a file, because a sandbox may have the name of a device of Windows.
const PREFIX: &str = "sandbox-";

/// How often a sandbox is claimed before another process is taken to run it.
const CLAIM_ATTEMPTS: usize = 20;
/// The pause between.
const CLAIM_PAUSE: Duration = Duration::from_millis(5);

/// What is known of a sandbox.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Record {
    /// The session.
    pub session: SessionId,
    /// The settings.
    pub settings: Settings,
    /// When it was created, in milliseconds since 1970.
    pub created: u64,
    /// When it was last started or put to sleep, in milliseconds since 1970.
    pub used: u64,
    /// Whether its container was created.
    pub(crate) is_complete: bool,
    /// Paths that a crash may have left behind.
    #[serde(default)]
    pub(crate) staging: Vec<String>,
    /// The programs that ended with it, and that no call was told about.
    #[serde(default)]
    pub(crate) ended: Option<EndedPrograms>,
    /// The token of its previews, once a port was exposed.
    #[serde(default)]
    pub(crate) preview_token: Option<String>,
}

/// A sandbox of a session's directory.
#[derive(Debug)]
pub struct Recorded {
    /// Its session and its name.
    pub id: SandboxId,
    /// What is known of it.
    pub record: Record,
    /// Whether a process runs it.
    pub is_running: bool,
}

/// The records of a session's directory.
#[derive(Debug, Clone)]
pub(crate) struct Records {
    dir: PathBuf,
}

/// Held by the process that runs a sandbox.
#[derive(Debug)]
pub(crate) struct Claim(#[expect(dead_code, reason = "its lock ends with it")] File);

impl Record {
    pub(crate) fn new(id: &SandboxId, settings: &Settings) -> Self {
        let created = now();
        let session = id.session.clone();
        let settings = settings.clone();
        Record {
            session,
            settings,
            created,
            used: created,
            is_complete: false,
            staging: Vec::new(),
            ended: None,
            preview_token: None,
        }
    }

    /// Returns whether a port of it was exposed.
    pub fn is_exposed(&self) -> bool {
        self.preview_token.is_some()
    }
}

impl Records {
    /// Returns the records of a session's directory, which need not exist.
    pub(crate) fn at(dir: &Path) -> Self {
        Records { dir: dir.join(DIRECTORY) }
    }

    fn path(&self, id: &SandboxId, extension: &str) -> PathBuf {
        let session = short_hash(id.session.key().as_bytes());
        self.dir.join(format!("{PREFIX}{session}-{}.{extension}", id.name))
    }

    /// Returns the record of a sandbox, if it exists.
    pub(crate) fn read_record(&self, id: &SandboxId) -> Result<Option<Record>> {
        match fs::read(self.path(id, "json")) {
            Ok(text) => parse_record(&id.name, &text).map(Some),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(failed(error)),
        }
    }

    /// Writes the record of a sandbox, completely or not at all.
    pub(crate) fn write(&self, id: &SandboxId, record: &Record) -> Result<()> {
        let write = || {
            fs::create_dir_all(&self.dir)?;
            let staging = self.path(id, "new");
            let mut file = File::create(&staging)?;
            file.write_all(&serde_json::to_vec(record)?)?;
            file.sync_all()?;
            fs::rename(staging, self.path(id, "json"))
        };
        write().map_err(failed)
    }

    /// Removes the record of a sandbox, if it exists.
    pub(crate) fn remove(&self, id: &SandboxId) -> Result<()> {
        for extension in ["json", "new"] {
            match fs::remove_file(self.path(id, extension)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
                _ => {}
            }
        }
        Ok(())
    }

    /// Returns all sandboxes with their records, sorted by name.
    pub(crate) fn list(&self) -> Result<Vec<(SandboxId, Record)>> {
        let entries = match fs::read_dir(&self.dir) {
            // What is wrong with the state directory is said when it is created.
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                return Ok(Vec::new());
            }
            entries => entries.map_err(failed)?,
        };
        let mut all = Vec::new();
        for entry in entries {
            let file = entry.map_err(failed)?.file_name();
            let stem = file.to_str().and_then(|name| name.strip_prefix(PREFIX)?.strip_suffix(".json"));
            let name = stem.and_then(|stem| SandboxName::new(stem.split_once('-')?.1).ok());
            let Some(name) = name else { continue };
            // It may have been destroyed meanwhile.
            let Ok(text) = fs::read(self.dir.join(&file)) else { continue };
            let record = parse_record(&name, &text)?;
            all.push((SandboxId { session: record.session.clone(), name }, record));
        }
        all.sort_by(|one, other| one.0.name.cmp(&other.0.name));
        Ok(all)
    }

    /// Claims a sandbox for this process.
    ///
    /// # Errors
    /// [`Code::Unavailable`] if another process runs it.
    pub(crate) fn claim(&self, id: &SandboxId) -> Result<Claim> {
        let open = || {
            fs::create_dir_all(&self.dir)?;
            File::create(self.path(id, "lock"))
        };
        let file = open().map_err(failed)?;
        let mut locked = file.try_lock();
        // A process that lists sandboxes holds it for a moment.
        for _ in 0..CLAIM_ATTEMPTS {
            if !matches!(locked, Err(TryLockError::WouldBlock)) {
                break;
            }
            std::thread::sleep(CLAIM_PAUSE);
            locked = file.try_lock();
        }
        match locked {
            Ok(()) => Ok(Claim(file)),
            Err(TryLockError::WouldBlock) => {
                let message = format!(
                    "another program runs the sandbox `{}`: use it through that program, or end that program",
                    id.name
                );
                Err(Error::new(Code::Unavailable, message))
            }
            Err(TryLockError::Error(error)) => Err(failed(error)),
        }
    }

    /// Returns whether a process runs a sandbox.
    pub(crate) fn is_claimed(&self, id: &SandboxId) -> bool {
        let Ok(file) = File::open(self.path(id, "lock")) else { return false };
        matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock))
    }
}

fn failed(error: io::Error) -> Error {
    Error::new(Code::Unavailable, format!("the records of the sandboxes cannot be used: {error}"))
        .with_source(error)
}

fn parse_record(name: &SandboxName, text: &[u8]) -> Result<Record> {
    serde_json::from_slice(text).map_err(|error| {
        let message = format!(
            "the record of the sandbox `{name}` is damaged: remove the session's state directory, and the container with the engine"
        );
        Error::new(Code::Unavailable, message).with_source(error)
    })
}

/// Returns whether the session's directory has sandboxes. Asks no engine, and claims none of them.
///
/// # Errors
/// [`Code::Unavailable`] if a record cannot be read.
pub fn has_recorded(dir: &Path) -> Result<bool> {
    Ok(!Records::at(dir).list()?.is_empty())
}

/// Lists the sandboxes of a session's directory, sorted by name. Asks no engine.
///
/// # Errors
/// [`Code::Unavailable`] if a record cannot be read.
pub fn list_recorded(dir: &Path) -> Result<Vec<Recorded>> {
    let records = Records::at(dir);
    let recorded = |(id, record)| {
        let is_running = records.is_claimed(&id);
        Recorded { id, record, is_running }
    };
    let complete = records.list()?.into_iter().filter(|(_, record)| record.is_complete);
    Ok(complete.map(recorded).collect())
}

#[cfg(test)]
mod tests {
    use koze_core::provider::{Profile, Size};

    use super::*;

    #[test]
    fn records_are_kept_claimed_and_removed() {
        let dir = std::env::temp_dir().join(format!("koze-records-{}", std::process::id()));
        let records = Records::at(&dir);
        assert!(records.list().unwrap().is_empty());
        let id = |session: &str| SandboxId {
            session: SessionId::new("local", session).unwrap(),
            name: SandboxName::new("a-b").unwrap(),
        };
        let profile = Profile::new("python", "python:3.12", Size { memory_mib: 256, disk_mb: 500 });
        let settings = Settings { profile, sleep_after: Duration::from_secs(1), size: None };
        for session in ["one", "two"] {
            let record = Record { is_complete: true, ..Record::new(&id(session), &settings) };
            records.write(&id(session), &record).unwrap();
        }
        let listed = list_recorded(&dir).unwrap();
        assert_eq!(listed.len(), 2);
        assert!(listed.iter().all(|one| !one.is_running && one.id.name.as_str() == "a-b"));
        let claim = records.claim(&id("one")).unwrap();
        assert!(records.is_claimed(&id("one")) && !records.is_claimed(&id("two")));
        assert_eq!(records.claim(&id("one")).unwrap_err().code, Code::Unavailable);
        drop(claim);
        drop(records.claim(&id("one")).unwrap());
        records.remove(&id("one")).unwrap();
        records.remove(&id("one")).unwrap();
        assert!(records.read_record(&id("one")).unwrap().is_none());
        fs::write(records.path(&id("two"), "json"), "{").unwrap();
        assert!(records.read_record(&id("two")).unwrap_err().message.contains("damaged"));
        fs::remove_dir_all(&dir).unwrap();
    }
}
