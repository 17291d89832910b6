//! The list of a session's snapshots: one value of its store, so that it is changed as a whole. A snapshot is added once its
//! archive is complete, and removed before its archive is deleted: what is listed is never half.

use serde::{Deserialize, Serialize};

use super::{Snapshot, SnapshotId};
use crate::error::{Code, Error, Result};
use crate::store::{Expected, Key, Range, Store};
use crate::workspace::config::SnapshotConfig;

const KEY: &str = "workspace/snapshots";
/// The beginning of the keys of archives.
const ARCHIVES: &str = "workspace/snapshots/";
/// When an archive that is not listed was left by a program that was killed, in milliseconds after its creation began.
const ABANDONED: u64 = 24 * 60 * 60 * 1000;
/// How often a change is tried while others change the list.
const TURNS: usize = 100;

#[derive(Default, Serialize, Deserialize)]
struct Content {
    snapshots: Vec<Snapshot>,
}

/// The list of a session's snapshots.
pub(super) struct Index<'a, T>(pub(super) &'a T);

impl<T: Store> Index<'_, T> {
    /// Returns the snapshots, the oldest first.
    pub(super) async fn list(&self) -> Result<Vec<Snapshot>> {
        Ok(self.read_content().await?.0.snapshots)
    }

    /// Adds a snapshot, if the limits allow it now.
    pub(super) async fn add(&self, snapshot: &Snapshot, config: &SnapshotConfig) -> Result<()> {
        self.update_list(|list| {
            check_room(list, config, snapshot.archive_bytes)?;
            list.push(snapshot.clone());
            Ok(())
        })
        .await
    }

    /// Removes a snapshot and its archive. Returns whether it was listed.
    pub(super) async fn remove(&self, id: &SnapshotId) -> Result<bool> {
        let removed = self.update_list(|list| {
            let found = list.iter().position(|snapshot| snapshot.id == *id);
            Ok(found.map(|at| list.remove(at)))
        });
        let Some(snapshot) = removed.await? else { return Ok(false) };
        self.0.delete_blob(&archive_key(&snapshot.id, snapshot.created)?).await?;
        Ok(true)
    }

    /// Removes what has expired, and archives that killed programs have left.
    pub(super) async fn remove_stale(&self, now: u64) -> Result<()> {
        let list = self.list().await?;
        for expired in list.iter().filter(|snapshot| snapshot.is_expired(now)) {
            self.remove(&expired.id).await?;
        }
        let mut range = Range::of(ARCHIVES);
        // Keys begin with the time, so the oldest are first.
        range.limit = 100;
        for blob in self.0.list_blobs(&range).await? {
            let Some((created, id)) = blob.key[ARCHIVES.len()..].split_once('-') else { continue };
            let old =
                u64::from_str_radix(created, 16).is_ok_and(|created| created.saturating_add(ABANDONED) < now);
            if old && !list.iter().any(|snapshot| snapshot.id.as_str() == id) {
                self.0.delete_blob(&Key::new(blob.key)?).await?;
            }
        }
        Ok(())
    }

    async fn update_list<R>(&self, mut change: impl FnMut(&mut Vec<Snapshot>) -> Result<R>) -> Result<R> {
        for _ in 0..TURNS {
            let (mut content, version) = self.read_content().await?;
            let result = change(&mut content.snapshots)?;
            let bytes = serde_json::to_vec(&content).map_err(|error| {
                Error::new(Code::Internal, "the list of snapshots cannot be written").with_source(error)
            })?;
            let expected = version.map_or(Expected::Absent, Expected::Version);
            if self.0.put(&Key::new(KEY)?, bytes, expected).await?.is_some() {
                return Ok(result);
            }
        }
        Err(Error::new(Code::Unavailable, "the list of snapshots keeps changing: try again"))
    }

    async fn read_content(&self) -> Result<(Content, Option<u64>)> {
        let Some(value) = self.0.get(&Key::new(KEY)?).await? else { return Ok((Content::default(), None)) };
        let content = serde_json::from_slice(&value.bytes).map_err(|error| {
            Error::new(Code::Internal, "the list of snapshots in the store is not valid").with_source(error)
        })?;
        Ok((content, Some(value.version)))
    }
}

/// Returns the key of an archive.
pub(super) fn archive_key(id: &SnapshotId, created: u64) -> Result<Key> {
    Key::new(format!("{ARCHIVES}{created:012x}-{id}"))
}

/// Returns how many bytes another snapshot may have.
///
/// # Errors
/// [`Code::Unavailable`] if there are as many snapshots as the limits allow, [`Code::TooLarge`] if it needs more than there is
/// room for.
pub(super) fn check_room(list: &[Snapshot], config: &SnapshotConfig, needs: u64) -> Result<u64> {
    let (count, most) = (list.len(), config.max_count);
    if u32::try_from(count).unwrap_or(u32::MAX) >= most {
        let message = format!(
            "this session has {count} snapshots, and its limit is {most} (`max_count`): remove one with `koze snapshot rm`"
        );
        return Err(Error::new(Code::Unavailable, message));
    }
    let used = used_bytes(list);
    let room = config.max_bytes.saturating_sub(used);
    if needs > room || room == 0 { Err(full_error(used, config)) } else { Ok(room) }
}

/// Returns the size of all archives in bytes.
pub(super) fn used_bytes(list: &[Snapshot]) -> u64 {
    list.iter().map(|snapshot| snapshot.archive_bytes).sum()
}

pub(super) fn full_error(used: u64, config: &SnapshotConfig) -> Error {
    let message = format!(
        "the snapshot does not fit: those of this session have {used} bytes, and their limit is {} bytes (`max_mb`): remove one \
         with `koze snapshot rm`",
        config.max_bytes
    );
    Error::new(Code::TooLarge, message)
}
