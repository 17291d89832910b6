//! `koze.lock`: records what koze owns in the wrangler configuration.

mod written;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::discover::Project;
use crate::finding::{Findings, Place, Stop};
use crate::home;
use crate::images::guest;
use crate::own::Own;
use crate::paths;
use crate::rules::Rule;
use crate::wrangler::locate::Given;
use crate::write::{beneath, input};

/// The file's name, next to the package's `Cargo.toml`.
pub const FILE: &str = "koze.lock";

/// The format version that this koze writes.
const VERSION: u32 = 1;

/// The remedy for an unreadable lock.
const MEND: &str = "it records what koze owns in the wrangler configuration: restore it from version control; if it is lost, delete it, and the next build adopts matching entries";

/// The remedy for a configuration that somebody else may have named.
const CONFIRM: &str = "if koze should manage that file, name it yourself with `--config FILE`: on this machine, koze remembers it; otherwise restore `koze.lock` from version control";

const HEADER: &str = "# Written by `koze build`: what koze owns in the wrangler configuration.\n# Commit this file; do not edit it.\n\n";

/// The contents of `koze.lock`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lock {
    /// The format version of the file.
    version: u32,
    /// The wrangler configuration, relative to the package, if it is not the one that wrangler finds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<String>,
    /// The base name of the sandbox that an agent gets by default: the first one ever built.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<String>,
    /// The blocks of the wrangler configuration that koze created. koze removes them with their last entry.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub blocks: Vec<String>,
    /// The files that koze wrote for images with its guest, relative to the package. koze deletes them with the last
    /// sandbox that needs them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
    /// The class that records the sandboxes of sessions, if the last build had it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registry: Option<LockedOwn>,
    /// The class that runs the scripts of agents, if the last build had it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scripts: Option<LockedOwn>,
    /// The sandboxes of the last build, in the order of their files.
    #[serde(default, rename = "sandbox", skip_serializing_if = "Vec::is_empty")]
    pub sandboxes: Vec<Locked>,
    /// The classes of removed sandboxes whose storage was kept.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kept: Vec<Kept>,
    /// The tags of the migrations that koze wrote.
    #[serde(default, rename = "migration", skip_serializing_if = "Vec::is_empty")]
    pub migrations: Vec<Tag>,
    /// Whether this was read from a file.
    #[serde(skip)]
    has_file: bool,
}

/// A class of koze's own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LockedOwn {
    /// The class.
    pub class: String,
    /// The binding.
    pub binding: String,
    /// The migration tag that created the class; `None` if `exports` declares it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub migration: Option<String>,
}

/// A sandbox of the last build.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Locked {
    /// The base name of the file.
    pub name: String,
    /// The file, relative to the package.
    pub file: String,
    /// The class.
    pub class: String,
    /// The binding.
    pub binding: String,
    /// The migration tag that created the class; `None` if `exports` declares it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub migration: Option<String>,
    /// The backend.
    pub backend: String,
    /// The container application at the top level.
    pub container: String,
    /// The keys of the container entry that koze wrote.
    pub keys: Vec<String>,
    /// The applications that the class had before its backend became `managed`. Each runs until somebody deletes it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub former_containers: Vec<String>,
    /// The container entries of named environments.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub environments: BTreeMap<String, Entry>,
}

/// A class of a removed sandbox whose storage was kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kept {
    /// The base name of the file that declared it.
    pub name: String,
    /// The class.
    pub class: String,
    /// The binding.
    pub binding: String,
}

/// A container entry that koze manages.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// The container application.
    pub container: String,
    /// The keys that koze wrote.
    pub keys: Vec<String>,
}

/// A container entry of a lock, borrowed from it.
#[derive(Debug, Clone, Copy)]
pub struct EntryView<'a> {
    /// The container application.
    pub container: &'a str,
    /// The keys that koze wrote.
    pub keys: &'a [String],
}

/// A migration that koze wrote.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tag {
    /// The environment whose own list contains it; `None` is the top level.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment: Option<String>,
    /// The tag.
    pub tag: String,
    /// SHA-256 of the migration.
    pub hash: String,
}

impl Lock {
    /// Returns the entry of a class of koze's own.
    pub fn own(&self, class: Own) -> Option<&LockedOwn> {
        match class {
            Own::Registry => self.registry.as_ref(),
            Own::Scripts => self.scripts.as_ref(),
        }
    }

    /// Sets the entry of a class of koze's own.
    pub fn set_own(&mut self, class: Own, entry: Option<LockedOwn>) {
        match class {
            Own::Registry => self.registry = entry,
            Own::Scripts => self.scripts = entry,
        }
    }

    /// Creates an empty lock.
    pub fn new() -> Self {
        Lock { version: VERSION, ..Lock::default() }
    }

    /// Renders the file. Returns `None` if it says the same as the file of `before`, whose bytes then stay as they are.
    pub fn render_after(mut self, before: &Lock) -> Option<String> {
        self.has_file = before.has_file;
        let is_same = before.has_file && self == *before;
        (!is_same).then(|| self.render())
    }

    /// Reads the project's lock. Returns an empty one if there is no file.
    ///
    /// # Errors
    /// Returns [`Stop`] if the file cannot be read or has an unsupported version.
    pub fn read(project: &Project, findings: &mut Findings) -> Result<Lock, Stop> {
        let text = match input::read_text_in(&project.dir, &project.dir.join(FILE)) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Lock::new()),
            Err(error) => return findings.io(&error),
        };
        let place = |range| Some(Place { file: FILE.to_owned(), text: Arc::from(text.as_str()), range });
        match written::read_lock(&text).map_or_else(|| toml_edit::de::from_str::<Lock>(&text), Ok) {
            Ok(lock) if lock.version == VERSION => {
                // Somebody else may have written it, so its paths must be ones that koze writes.
                let is_foreign = |file: &&String| !guest::is_written(&project.dir.join(file), project);
                if let Some(file) = lock.files.iter().find(is_foreign) {
                    let message = format!(
                        "its `files` lists `{file}`, which koze does not write in the package or the repository that contains it"
                    );
                    return findings.fail(Rule::BadLock { message, remedy: MEND }, place(None));
                }
                Ok(Lock { has_file: true, ..lock })
            }
            read => {
                // A later format may have unknown keys, so check the version first.
                let version = text.parse::<toml_edit::Document<String>>().ok();
                let version = version.and_then(|lock| lock.get("version")?.as_integer());
                let (message, remedy, range) = match (version, read) {
                    (Some(version), _) if version != i64::from(VERSION) => (
                        format!("it has version {version}, but this koze supports version {VERSION}"),
                        "a newer koze wrote it: install that version of koze or a later one",
                        None,
                    ),
                    (_, Err(error)) => (error.message().trim().replace('\n', ", "), MEND, error.span()),
                    (_, Ok(_)) => ("it has no version".to_owned(), MEND, None),
                };
                findings.fail(Rule::BadLock { message, remedy }, place(range))
            }
        }
    }

    /// Renders the file.
    ///
    /// # Panics
    /// Never: a lock is plain data.
    pub fn render(&self) -> String {
        let body = toml_edit::ser::to_string_pretty(self).expect("a lock is plain data");
        format!("{HEADER}{body}")
    }

    /// Returns whether the lock was read from a file.
    pub fn has_file(&self) -> bool {
        self.has_file
    }

    /// Returns whether koze owns nothing.
    pub fn is_empty(&self) -> bool {
        self.sandboxes.is_empty()
            && self.kept.is_empty()
            && self.migrations.is_empty()
            && self.registry.is_none()
            && self.scripts.is_none()
    }

    /// Returns the sandbox of a class.
    pub fn class(&self, class: &str) -> Option<&Locked> {
        self.sandboxes.iter().find(|locked| locked.class == class)
    }
}

/// Returns the configuration that a lock names. Outside the package and its repository, only the user may name one.
///
/// # Errors
/// Returns [`Stop`] if the user has not named it.
pub fn named<'p>(path: &'p Path, project: &Project, findings: &mut Findings) -> Result<Given<'p>, Stop> {
    if paths::normal(path).starts_with(project.repository()) || beneath::is_left_out() {
        return Ok(Given::ByLock(path));
    }
    if home::is_remembered(&project.dir, path) {
        return Ok(Given::ByUser(path));
    }
    let message = format!(
        "its `config` is `{}`, which is outside the package and the repository that contains it",
        paths::relative(path, &project.dir)
    );
    findings.fail(Rule::BadLock { message, remedy: CONFIRM }, Some(Place::file(FILE)))
}

impl Locked {
    /// Returns the container entry in an environment; `None` is the top level.
    pub fn entry(&self, environment: Option<&str>) -> Option<EntryView<'_>> {
        let (container, keys) = match environment {
            None => (&self.container, &self.keys),
            Some(environment) => {
                let Entry { container, keys } = self.environments.get(environment)?;
                (container, keys)
            }
        };
        Some(EntryView { container, keys })
    }
}

/// Hashes the data of a migration, independent of its formatting.
pub fn hash(migration: &Value) -> String {
    fn to_canonical(value: &Value) -> String {
        match value {
            Value::Object(object) => {
                let mut entries: Vec<_> = object.iter().collect();
                entries.sort_by_key(|(key, _)| *key);
                let entries: Vec<_> = entries
                    .into_iter()
                    .map(|(key, value)| format!("{key:?}:{}", to_canonical(value)))
                    .collect();
                format!("{{{}}}", entries.join(","))
            }
            Value::Array(list) => {
                format!("[{}]", list.iter().map(to_canonical).collect::<Vec<_>>().join(","))
            }
            other => other.to_string(),
        }
    }
    use std::fmt::Write as _;
    let digest = Sha256::digest(to_canonical(migration).as_bytes());
    digest.iter().fold("sha256:".to_owned(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_hash_depends_only_on_the_data() {
        let one = json!({ "tag": "v1", "new_sqlite_classes": ["A"] });
        let other = json!({ "new_sqlite_classes": ["A"], "tag": "v1" });
        assert_eq!(hash(&one), hash(&other));
        assert_ne!(hash(&one), hash(&json!({ "tag": "v1", "new_sqlite_classes": ["B"] })));
    }

    #[test]
    fn a_lock_is_read_as_it_was_written() {
        let mut lock = Lock::new();
        lock.default = Some("shell".to_owned());
        lock.sandboxes.push(Locked {
            name: "shell".to_owned(),
            file: "src/shell.sandbox.rs".to_owned(),
            class: "ShellSandbox".to_owned(),
            binding: "SHELL_SANDBOX".to_owned(),
            migration: Some("v1".to_owned()),
            backend: "sdk".to_owned(),
            container: "shell-sandbox".to_owned(),
            keys: vec!["name".to_owned()],
            former_containers: Vec::new(),
            environments: BTreeMap::from([(
                "staging".to_owned(),
                Entry { container: "shell-sandbox-staging".to_owned(), keys: vec![] },
            )]),
        });
        lock.migrations.push(Tag { environment: None, tag: "v1".to_owned(), hash: "x".to_owned() });
        assert_eq!(toml_edit::de::from_str::<Lock>(&lock.render()).unwrap(), lock);
        assert_eq!(written::read_lock(&lock.render()), Some(lock));
    }
}
