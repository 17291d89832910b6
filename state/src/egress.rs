//! The egress journal of a state directory. It contains no URLs and no content.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::net::IpAddr;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use koze_core::egress::describe_target;
use koze_core::error::{Code, Error, Result};
use rustix::fs::FlockOperation;
use serde::{Deserialize, Serialize};

use crate::runtime;

/// Separate files for allowed and denied attempts, so that denials cannot displace the others.
const FILES: [&str; 2] = ["egress-reached.jsonl", "egress-refused.jsonl"];
/// The size at which a file is rotated, in bytes.
const MAX_SIZE: u64 = 512 << 10;

/// An attempt of a sandbox to reach a host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reached {
    /// Its unique ID.
    #[serde(default)]
    id: String,
    /// Its time, in milliseconds since the epoch.
    pub time: u64,
    /// The session of the sandbox.
    pub session: String,
    /// The sandbox, or [`SCRIPTS`](Reached::SCRIPTS) or [`BROWSER`](Reached::BROWSER).
    pub sandbox: String,
    /// The requested host.
    pub host: String,
    /// The port, or 0 if a program only looked the host up.
    pub port: u16,
    /// The address that was connected to, or the last one that was denied.
    pub address: Option<IpAddr>,
    /// The rule that decided.
    pub rule: String,
    /// Whether it was allowed.
    pub allowed: bool,
    /// The host that was requested within a tunnel: the server name of TLS, or the host of an HTTP request, if it is
    /// another one.
    pub sni: Option<String>,
}

impl Reached {
    /// What scripts are called in place of a sandbox. No sandbox can have this name.
    pub const SCRIPTS: &str = koze_core::egress::SCRIPTS;
    /// What the browser of scripts is called.
    pub const BROWSER: &str = "(browser)";
    /// The start of the rule if a program only looked a host up.
    pub const LOOKUP: &str = "name lookup: ";

    /// Returns the host and the port, or the host only if a program only looked it up.
    pub fn target(&self) -> String {
        describe_target(&self.host, self.port)
    }

    /// Returns whether the host that was requested within the tunnel differs from the tunnel's host.
    pub fn is_fronted(&self) -> bool {
        self.sni.as_ref().is_some_and(|sni| *sni != self.host)
    }
}

/// The journal of the sandboxes of a state directory.
#[derive(Debug, Clone)]
pub struct EgressJournal {
    state: PathBuf,
    session: String,
    sandbox: String,
}

impl EgressJournal {
    /// Returns the journal for the attempts of one sandbox.
    pub fn new(state: &Path, session: &str, sandbox: &str) -> Self {
        EgressJournal { state: state.to_owned(), session: session.to_owned(), sandbox: sandbox.to_owned() }
    }

    /// Creates an entry with the current time.
    pub fn entry(&self, host: &str, port: u16) -> Reached {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Reached {
            id: uuid::Uuid::new_v4().simple().to_string(),
            time: u64::try_from(since.as_millis()).unwrap_or(u64::MAX),
            session: self.session.clone(),
            sandbox: self.sandbox.clone(),
            host: host.to_owned(),
            port,
            address: None,
            rule: String::new(),
            allowed: true,
            sni: None,
        }
    }

    /// Writes an entry, or an update of it. Errors are ignored: a full disk must not end connections.
    pub async fn note(&self, entry: &Reached) {
        let file = self.state.join(FILES[usize::from(!entry.allowed)]);
        let Ok(mut line) = serde_json::to_vec(entry) else { return };
        line.push(b'\n');
        let _ = runtime::run_blocking(move || append_line(&file, &line).map_err(journal_error)).await;
    }

    /// Writes a denied entry.
    pub async fn refuse(&self, entry: &mut Reached, rule: &str) {
        entry.allowed = false;
        rule.clone_into(&mut entry.rule);
        self.note(entry).await;
    }
}

/// Returns the entries of a state directory, oldest first. Its size is limited: of allowed and denied attempts, the latest several
/// thousand each are kept.
///
/// # Errors
/// [`Code::Unavailable`] if the journal cannot be read.
pub fn read_egress(state: &Path) -> Result<Vec<Reached>> {
    let mut all: Vec<Reached> = Vec::new();
    for name in FILES {
        for path in [rotated_path(&state.join(name)), state.join(name)] {
            let text = match fs::read(&path) {
                Ok(text) => text,
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(journal_error(error)),
            };
            // A truncated line, for example after a full disk, is skipped.
            for entry in text
                .split(|byte| *byte == b'\n')
                .filter_map(|line| serde_json::from_slice::<Reached>(line).ok())
            {
                // An update replaces the entry. It follows soon after it.
                match all.iter_mut().rev().take(LOOK_BACK).find(|known| known.id == entry.id) {
                    Some(known) => *known = entry,
                    None => all.push(entry),
                }
            }
        }
    }
    all.sort_by_key(|entry| entry.time);
    Ok(all)
}

/// How many entries may be between an entry and its update.
const LOOK_BACK: usize = 2000;

fn append_line(path: &Path, line: &[u8]) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.append(true).create(true).mode(0o600);
    let mut file = options.open(path)?;
    // Several programs may use this state directory.
    rustix::fs::flock(&file, FlockOperation::LockExclusive)?;
    if file.metadata()?.len() + line.len() as u64 > MAX_SIZE && is_at(&file, path) {
        fs::rename(path, rotated_path(path))?;
        file = options.open(path)?;
    }
    file.write_all(line)
}

/// Returns whether a path still names this file.
fn is_at(file: &File, path: &Path) -> bool {
    let identity = |about: fs::Metadata| (about.dev(), about.ino());
    let same = file.metadata().and_then(|this| Ok(identity(this) == identity(fs::metadata(path)?)));
    same.unwrap_or(false)
}

/// Returns the path of the rotated file.
fn rotated_path(path: &Path) -> PathBuf {
    path.with_extension("1.jsonl")
}

fn journal_error(error: io::Error) -> Error {
    Error::new(Code::Unavailable, format!("the egress journal cannot be used: {}", error.kind()))
        .with_source(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_size_is_bounded_and_denials_displace_nothing() {
        let state = tempfile::tempdir().unwrap();
        let journal = EgressJournal::new(state.path(), "s", "a");
        let host = "a.example";
        let mut kept = journal.entry(host, 443);
        let line = |entry: &Reached| [serde_json::to_vec(entry).unwrap(), b"\n".to_vec()].concat();
        append_line(&state.path().join(FILES[0]), &line(&kept)).unwrap();
        kept.sni = Some("b.example".into());
        append_line(&state.path().join(FILES[0]), &line(&kept)).unwrap();
        for number in 0..9000 {
            let entry = Reached { allowed: false, ..journal.entry(host, number) };
            append_line(&state.path().join(FILES[1]), &line(&entry)).unwrap();
        }
        let all = read_egress(state.path()).unwrap();
        assert_eq!(all.iter().filter(|entry| entry.allowed).collect::<Vec<_>>(), [&kept]);
        assert!(kept.is_fronted());
        assert_eq!(all.last().unwrap().port, 8999);
        let mut length = 0;
        for entry in fs::read_dir(state.path()).unwrap() {
            let about = entry.unwrap().metadata().unwrap();
            assert_eq!(about.mode() & 0o777, 0o600);
            length += about.len();
        }
        assert!(length <= 3 * MAX_SIZE, "{length}");
    }
}
