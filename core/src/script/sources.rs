//! The libraries and created tools of an agent, with their earlier versions.

use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{encode_value, read};
use crate::error::{Code, Error, Result};
use crate::store::{Expected, Key, Range, Store};
use crate::time;

/// The maximum length of a name in bytes.
const MAX_NAME: usize = 64;
/// The maximum length of a description in bytes.
const MAX_DESCRIPTION: usize = 4 << 10;
/// The maximum number of libraries, and of created tools, of an agent.
const MAX_SOURCES: usize = 100;
/// The number of earlier versions that are kept.
const MAX_VERSIONS: u64 = 100;

/// The kind of a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Library,
    Tool,
}

impl Kind {
    /// Its name in keys and in the names of the tools for it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Kind::Library => "library",
            Kind::Tool => "tool",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Library => "Library",
            Kind::Tool => "Tool",
        })
    }
}

/// A library or tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Source {
    /// The version, counted from 1.
    pub(crate) version: u64,
    pub(crate) description: String,
    /// The schema of the arguments; only of a tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) parameter_schema: Option<Value>,
    pub(crate) code: String,
    /// Whether it can be called; always of a library.
    pub(crate) enabled: bool,
    /// When the version was written, in milliseconds since the epoch.
    pub(crate) updated: u64,
}

impl Source {
    /// Returns a new source, with version 1.
    pub(crate) fn new(description: String, parameter_schema: Option<Value>, code: String) -> Self {
        Source { version: 1, description, parameter_schema, code, enabled: true, updated: time::now() }
    }
}

/// A version of a library or tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(crate) struct Version {
    version: u64,
    updated: u64,
}

/// The libraries or the tools of an agent.
#[derive(Debug, Clone)]
pub(crate) struct Sources<S> {
    store: S,
    kind: Kind,
}

impl<S: Store> Sources<S> {
    pub(crate) fn new(store: S, kind: Kind) -> Self {
        Sources { store, kind }
    }

    /// Adds a new source.
    pub(crate) async fn create(&self, name: &str, source: Source) -> Result<Source> {
        check_description(&source.description)?;
        let place = self.source_key(name)?;
        if self.store.get(&place).await?.is_some() {
            return Err(self.already_exists_error(name));
        }
        if self.store.list(&Range::of(self.key_prefix())).await?.len() >= MAX_SOURCES {
            let message = format!(
                "there are {MAX_SOURCES}, which is the maximum: delete one with delete_{}",
                self.kind.name()
            );
            return Err(Error::new(Code::Unavailable, message));
        }
        match self.store.put(&place, encode_value(&source)?, Expected::Absent).await? {
            Some(_) => Ok(source),
            None => Err(self.already_exists_error(name)),
        }
    }

    /// Replaces a source with a new version, and keeps the old one. `current` is what the new one was made of.
    pub(crate) async fn update(&self, name: &str, current: &Stored, new: Source) -> Result<Source> {
        check_description(&new.description)?;
        let version = current.source.version;
        let new = Source { version: version + 1, updated: time::now(), ..new };
        self.store
            .put(&self.version_place(name, version)?, encode_value(&current.source)?, Expected::Any)
            .await?;
        self.replace_current(name, current, &new).await?;
        if let Some(old) = version.checked_sub(MAX_VERSIONS) {
            self.store.delete(&self.version_place(name, old)?, Expected::Any).await?;
        }
        Ok(new)
    }

    /// Enables or disables a source. This does not create a new version.
    pub(crate) async fn set_enabled(&self, name: &str, enabled: bool) -> Result<()> {
        let current = self.get(name).await?;
        let new = Source { enabled, ..current.source.clone() };
        self.replace_current(name, &current, &new).await
    }

    async fn replace_current(&self, name: &str, current: &Stored, new: &Source) -> Result<()> {
        let expected = Expected::Version(current.stored);
        if self.store.put(&self.source_key(name)?, encode_value(new)?, expected).await?.is_some() {
            return Ok(());
        }
        let message = format!("{} '{name}' was changed by another call meanwhile: read it again", self.kind);
        Err(Error::new(Code::Unavailable, message))
    }

    /// Deletes a source and its versions.
    pub(crate) async fn delete(&self, name: &str) -> Result<()> {
        if !self.store.delete(&self.source_key(name)?, Expected::Any).await? {
            return Err(self.not_found_error(name));
        }
        for listed in self.store.list(&Range::of(self.versions_prefix(name))).await? {
            self.store.delete(&Key::new(listed.key)?, Expected::Any).await?;
        }
        Ok(())
    }

    /// Returns a source.
    pub(crate) async fn get(&self, name: &str) -> Result<Stored> {
        self.find(name).await?.ok_or_else(|| self.not_found_error(name))
    }

    /// Returns a source, if it exists.
    pub(crate) async fn find(&self, name: &str) -> Result<Option<Stored>> {
        let Some(found) = self.store.get(&self.source_key(name)?).await? else { return Ok(None) };
        Ok(Some(Stored { source: self.decode_source(name, &found.bytes)?, stored: found.version }))
    }

    /// Returns a version of a source, or the current one, and the versions that are kept, the oldest first.
    pub(crate) async fn read_with_versions(
        &self,
        name: &str,
        version: Option<u64>,
    ) -> Result<(Source, Vec<Version>)> {
        let current = self.get(name).await?.source;
        let versions = self.list_versions(name, &current).await?;
        let source = match version {
            Some(version) if version != current.version => self.read_version(name, version).await?,
            _ => current,
        };
        Ok((source, versions))
    }

    /// Returns an earlier version of a source.
    async fn read_version(&self, name: &str, version: u64) -> Result<Source> {
        let Some(found) = self.store.get(&self.version_place(name, version)?).await? else {
            let message = format!("{} '{name}' has no version {version} anymore, or not yet", self.kind);
            return Err(Error::new(Code::NotFound, message));
        };
        self.decode_source(name, &found.bytes)
    }

    async fn list_versions(&self, name: &str, current: &Source) -> Result<Vec<Version>> {
        let mut versions = Vec::new();
        for listed in self.store.list(&Range::of(self.versions_prefix(name))).await? {
            if let Some(found) = self.store.get(&Key::new(listed.key)?).await? {
                let Source { version, updated, .. } = self.decode_source(name, &found.bytes)?;
                // An update that was refused may have stored the current version.
                if version < current.version {
                    versions.push(Version { version, updated });
                }
            }
        }
        versions.push(Version { version: current.version, updated: current.updated });
        Ok(versions)
    }

    /// Returns all sources by name.
    pub(crate) async fn list(&self) -> Result<Vec<(String, Source)>> {
        let mut all = Vec::new();
        for listed in self.store.list(&Range::of(self.key_prefix())).await? {
            let name = listed.key.strip_prefix(&self.key_prefix()).unwrap_or_default().to_owned();
            // It may have been deleted meanwhile.
            if let Some(Stored { source, .. }) = self.find(&name).await? {
                all.push((name, source));
            }
        }
        Ok(all)
    }

    fn key_prefix(&self) -> String {
        format!("script/{}/", self.kind.name())
    }

    fn versions_prefix(&self, name: &str) -> String {
        format!("script/{}-version/{name}/", self.kind.name())
    }

    fn source_key(&self, name: &str) -> Result<Key> {
        check_name(name)?;
        Key::new(format!("{}{name}", self.key_prefix()))
    }

    fn version_place(&self, name: &str, version: u64) -> Result<Key> {
        check_name(name)?;
        Key::new(format!("{}{version:020}", self.versions_prefix(name)))
    }

    fn decode_source(&self, name: &str, bytes: &[u8]) -> Result<Source> {
        read(bytes).map_err(|error| {
            Error::new(Code::Internal, format!("{} '{name}' cannot be read", self.kind)).with_source(error)
        })
    }

    fn already_exists_error(&self, name: &str) -> Error {
        let Sources { kind, .. } = self;
        let message = format!("{kind} '{name}' already exists. Use update_{} to modify it.", kind.name());
        Error::new(Code::AlreadyExists, message)
    }

    fn not_found_error(&self, name: &str) -> Error {
        let Sources { kind, .. } = self;
        let message = format!("{kind} '{name}' does not exist. Use create_{} to create it.", kind.name());
        Error::new(Code::NotFound, message)
    }
}

/// A source as it is stored.
#[derive(Debug, Clone)]
pub(crate) struct Stored {
    pub(crate) source: Source,
    /// The version of its value in the store.
    stored: u64,
}

fn check_name(name: &str) -> Result<()> {
    let letter = |c: char| c.is_ascii_lowercase();
    let is_good = name.starts_with(letter)
        && name.len() <= MAX_NAME
        && name.chars().all(|c| letter(c) || c.is_ascii_digit() || c == '_');
    if is_good {
        return Ok(());
    }
    let message = format!(
        "`{name}` is not a valid name: it must match ^[a-z][a-z0-9_]*$ and have at most {MAX_NAME} characters"
    );
    Err(Error::new(Code::InvalidInput, message))
}

fn check_description(description: &str) -> Result<()> {
    if description.len() <= MAX_DESCRIPTION {
        return Ok(());
    }
    let message = format!(
        "the description has {} bytes, but may have at most {MAX_DESCRIPTION}: shorten it",
        description.len()
    );
    Err(Error::new(Code::TooLarge, message))
}
