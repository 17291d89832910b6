//! `koze.lock`: what koze owns in the wrangler configuration.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::discover::Project;
use crate::finding::{Findings, Place, Stop};
use crate::rules::Rule;

/// The file's name, beside the package's `Cargo.toml`.
pub const FILE: &str = "koze.lock";

/// The format this koze writes.
const VERSION: u32 = 1;

/// What to do with a lock that cannot be read.
const MEND: &str = "it records what koze owns in the wrangler configuration: restore it from version control; if it is lost, delete it, and the next build adopts matching entries";

const HEADER: &str = "# Written by `koze build`: what koze owns in the wrangler configuration.\n# Commit this file; do not edit it.\n\n";

/// What koze owns.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lock {
    /// The file's format.
    version: u32,
    /// The wrangler configuration, relative to the package, where it is not the one wrangler finds by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub config: Option<String>,
    /// Base name of the sandbox an agent gets when it names none: the first one ever built.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<String>,
    /// The blocks of the wrangler configuration that koze made: they go with their last entry.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub blocks: Vec<String>,
    /// The files that koze wrote to build the images of sandboxes with its guest, relative to the package: they go with
    /// the last sandbox that needs them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<String>,
    /// The class that records the sandboxes of sessions, where the last build had it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registry: Option<Registry>,
    /// The sandboxes of the last build, in the order of their files.
    #[serde(default, rename = "sandbox", skip_serializing_if = "Vec::is_empty")]
    pub sandboxes: Vec<Locked>,
    /// The classes whose sandbox is gone and whose storage was kept.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub kept: Vec<Kept>,
    /// The migration tags koze wrote.
    #[serde(default, rename = "migration", skip_serializing_if = "Vec::is_empty")]
    pub migrations: Vec<Tag>,
    /// The text this was read from; none where there is no file.
    #[serde(skip)]
    text: Option<String>,
}

/// The class that records the sandboxes of sessions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Registry {
    /// The class.
    pub class: String,
    /// The binding.
    pub binding: String,
    /// The migration tag that made the class; none where `exports` declares it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub migration: Option<String>,
}

/// One sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Locked {
    /// Base name of the file.
    pub name: String,
    /// The file, relative to the package.
    pub file: String,
    /// The class.
    pub class: String,
    /// The binding.
    pub binding: String,
    /// The migration tag that made the class; none where `exports` declares it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub migration: Option<String>,
    /// What runs behind the class.
    pub backend: String,
    /// The container application at the top level.
    pub container: String,
    /// The keys of the container entry that koze wrote.
    pub keys: Vec<String>,
    /// The same for named environments.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub environments: BTreeMap<String, Entry>,
}

/// A class whose sandbox is gone and whose storage was kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Kept {
    /// Base name of the file it was declared in.
    pub name: String,
    /// The class.
    pub class: String,
    /// The binding.
    pub binding: String,
}

/// A container entry of koze's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// The container application.
    pub container: String,
    /// The keys that koze wrote.
    pub keys: Vec<String>,
}

/// A migration koze wrote: to be found again as it was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tag {
    /// The environment whose own list holds it; none is the top level.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment: Option<String>,
    /// The tag.
    pub tag: String,
    /// SHA-256 of the migration.
    pub hash: String,
}

impl Lock {
    /// An empty lock.
    pub fn new() -> Self {
        Lock { version: VERSION, ..Lock::default() }
    }

    /// The file's text, where it was `before`: the same bytes if the two say the same.
    pub fn render_after(mut self, before: &Lock) -> String {
        self.text.clone_from(&before.text);
        match &before.text {
            Some(text) if self == *before => text.clone(),
            _ => self.render(),
        }
    }

    /// Reads the project's lock, an empty one where there is no file.
    pub fn read(project: &Project, findings: &mut Findings) -> Result<Lock, Stop> {
        let text = match fs_err::read_to_string(project.dir.join(FILE)) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Lock::new()),
            Err(error) => return findings.io(&error),
        };
        let place = |range| Some(Place { file: FILE.to_owned(), text: Arc::from(text.as_str()), range });
        match toml_edit::de::from_str::<Lock>(&text) {
            Ok(lock) if lock.version == VERSION => Ok(Lock { text: Some(text), ..lock }),
            read => {
                // A later format may have keys this koze has never heard of: what counts is its number.
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

    /// The file's text.
    ///
    /// # Panics
    /// Never: a lock is plain data.
    pub fn render(&self) -> String {
        let body = toml_edit::ser::to_string_pretty(self).expect("a lock is plain data");
        format!("{HEADER}{body}")
    }

    /// Whether it was read from a file.
    pub fn has_file(&self) -> bool {
        self.text.is_some()
    }

    /// Whether koze owns nothing.
    pub fn is_empty(&self) -> bool {
        self.sandboxes.is_empty()
            && self.kept.is_empty()
            && self.migrations.is_empty()
            && self.registry.is_none()
    }

    /// The sandbox of a class.
    pub fn class(&self, class: &str) -> Option<&Locked> {
        self.sandboxes.iter().find(|locked| locked.class == class)
    }
}

impl Locked {
    /// The container entry in an environment; `None` is the top level.
    pub fn entry(&self, environment: Option<&str>) -> Option<Entry> {
        match environment {
            None => Some(Entry { container: self.container.clone(), keys: self.keys.clone() }),
            Some(environment) => self.environments.get(environment).cloned(),
        }
    }
}

/// The hash of a migration: of its data, not of how it is written.
pub fn hash(migration: &Value) -> String {
    fn canonical(value: &Value) -> String {
        match value {
            Value::Object(object) => {
                let mut entries: Vec<_> = object.iter().collect();
                entries.sort_by_key(|(key, _)| *key);
                let entries: Vec<_> =
                    entries.into_iter().map(|(key, value)| format!("{key:?}:{}", canonical(value))).collect();
                format!("{{{}}}", entries.join(","))
            }
            Value::Array(list) => format!("[{}]", list.iter().map(canonical).collect::<Vec<_>>().join(",")),
            other => other.to_string(),
        }
    }
    use std::fmt::Write as _;
    let digest = Sha256::digest(canonical(migration).as_bytes());
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
    fn a_hash_is_of_the_data() {
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
            environments: BTreeMap::from([(
                "staging".to_owned(),
                Entry { container: "shell-sandbox-staging".to_owned(), keys: vec![] },
            )]),
        });
        lock.migrations.push(Tag { environment: None, tag: "v1".to_owned(), hash: "x".to_owned() });
        assert_eq!(toml_edit::de::from_str::<Lock>(&lock.render()).unwrap(), lock);
    }
}
