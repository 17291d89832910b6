//! The sandboxes that were created from snapshots: which ones a session has, and of which workspace.
//!
//! A record is written before the sandbox is created, and says so until the sandbox is complete. If the program is killed
//! meanwhile, the record is no longer renewed, and the next call destroys what was half.

use serde::{Deserialize, Serialize};

use super::SnapshotId;
use crate::error::{Code, Error, Result};
use crate::id::SandboxName;
use crate::store::{Expected, Key, Range, Store};

const PREFIX: &str = "workspace/derived/";
/// When a record that is not complete and not renewed is abandoned, in milliseconds.
const LEASE: u64 = 5 * 60 * 1000;
/// How often it is renewed, in milliseconds.
pub(super) const RENEW: u64 = 30 * 1000;

/// What is recorded of a sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Derived {
    /// Its workspace.
    pub(crate) workspace: String,
    /// Its snapshot.
    pub(crate) snapshot: SnapshotId,
    /// Whether it is complete.
    pub(super) complete: bool,
    /// When it was written, in milliseconds since 1970.
    pub(super) written: u64,
}

/// What a new sandbox is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum How {
    Restored,
    Branch,
}

/// Returns a name that is probably not used: the beginning of the workspace's name, what it is, and four random digits. The
/// names of sandboxes have at most 20 characters.
pub(super) fn random_name(workspace: &str, how: How) -> Result<SandboxName> {
    let how = match how {
        How::Restored => "restored",
        How::Branch => "branch",
    };
    let origin: String = workspace.chars().take(20 - how.len() - 6).collect();
    let short = uuid::Uuid::new_v4().simple().to_string();
    SandboxName::new(&format!("{}-{how}-{}", origin.trim_end_matches('-'), &short[..4]))
}

/// Records a sandbox that is about to be created. Returns the version of the record, or `None` if the name is used.
pub(super) async fn add_record<T: Store>(
    store: &T,
    name: &SandboxName,
    derived: &Derived,
) -> Result<Option<u64>> {
    store.put(&record_key(name)?, encode_record(derived)?, Expected::Absent).await
}

/// Renews or completes the record of a version. Returns its new version.
pub(super) async fn update_record<T: Store>(
    store: &T,
    name: &SandboxName,
    derived: &Derived,
    version: u64,
) -> Result<u64> {
    let written = store.put(&record_key(name)?, encode_record(derived)?, Expected::Version(version)).await?;
    written.ok_or_else(|| {
        Error::new(
            Code::Unavailable,
            "the restore made no progress for five minutes and was abandoned: try again",
        )
    })
}

/// Forgets a sandbox.
pub(super) async fn delete_record<T: Store>(store: &T, name: &SandboxName) -> Result<()> {
    store.delete(&record_key(name)?, Expected::Any).await.map(drop)
}

/// Returns the record of a complete sandbox.
pub(in crate::workspace) async fn find_derived<T: Store>(
    store: &T,
    name: &SandboxName,
) -> Result<Option<Derived>> {
    Ok(read_record(store, &record_key(name)?).await?.filter(|derived| derived.complete))
}

/// Returns the records of the complete sandboxes, sorted by name. A sandbox may have been destroyed since.
pub(in crate::workspace) async fn list_derived<T: Store>(store: &T) -> Result<Vec<(SandboxName, Derived)>> {
    let mut list = Vec::new();
    for listed in store.list(&Range::of(PREFIX)).await? {
        let derived = read_record(store, &Key::new(listed.key.as_str())?).await?;
        if let Some(derived) = derived.filter(|derived| derived.complete) {
            list.push((SandboxName::new(&listed.key[PREFIX.len()..])?, derived));
        }
    }
    Ok(list)
}

/// Returns the sandboxes that were abandoned before they were complete.
pub(super) async fn list_abandoned<T: Store>(store: &T, now: u64) -> Result<Vec<SandboxName>> {
    let mut names = Vec::new();
    for listed in store.list(&Range::of(PREFIX)).await? {
        let derived = read_record(store, &Key::new(listed.key.as_str())?).await?;
        let is_old = |derived: Derived| !derived.complete && derived.written.saturating_add(LEASE) < now;
        if derived.is_some_and(is_old) {
            names.push(SandboxName::new(&listed.key[PREFIX.len()..])?);
        }
    }
    Ok(names)
}

async fn read_record<T: Store>(store: &T, key: &Key) -> Result<Option<Derived>> {
    let Some(value) = store.get(key).await? else { return Ok(None) };
    let derived = serde_json::from_slice(&value.bytes);
    derived.map(Some).map_err(|error| {
        Error::new(Code::Internal, "the record of a restored sandbox is not valid").with_source(error)
    })
}

fn record_key(name: &SandboxName) -> Result<Key> {
    Key::new(format!("{PREFIX}{name}"))
}

fn encode_record(derived: &Derived) -> Result<Vec<u8>> {
    serde_json::to_vec(derived).map_err(|error| {
        Error::new(Code::Internal, "the record of a sandbox cannot be written").with_source(error)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_begin_with_that_of_the_workspace() {
        for (workspace, restored, branch) in [
            ("box", "box-restored-", "box-branch-"),
            ("a-long-workspace-box", "a-long-restored-", "a-long-w-branch-"),
            ("abcde-fgh", "abcde-restored-", "abcde-fg-branch-"),
        ] {
            assert!(random_name(workspace, How::Restored).unwrap().as_str().starts_with(restored));
            assert!(random_name(workspace, How::Branch).unwrap().as_str().starts_with(branch));
        }
    }
}
