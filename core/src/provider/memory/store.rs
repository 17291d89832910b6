//! The store of a session in memory.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::pin::pin;
use std::sync::{Arc, Mutex};

use futures_util::{Stream, TryStreamExt};

use super::lock;
use crate::error::Result;
use crate::maybe_send::MaybeSend;
use crate::sandbox::Piece;
use crate::store::{Expected, Key, Listed, ListedBlob, Range, Store, Value, check_size};

/// The store of a session in memory. It has no limit beyond that of a value.
#[derive(Debug, Clone, Default)]
pub struct MemoryStore(Arc<Mutex<Content>>);

#[derive(Debug, Default)]
struct Content {
    values: BTreeMap<String, Value>,
    blobs: BTreeMap<String, Vec<u8>>,
    /// The last version that was used.
    version: u64,
}

impl Store for MemoryStore {
    async fn get(&self, key: &Key) -> Result<Option<Value>> {
        Ok(lock(&self.0).values.get(key.as_str()).cloned())
    }

    async fn put(&self, key: &Key, bytes: Vec<u8>, expected: Expected) -> Result<Option<u64>> {
        check_size(&bytes)?;
        let mut content = lock(&self.0);
        if !expected.matches(content.values.get(key.as_str()).map(|value| value.version)) {
            return Ok(None);
        }
        content.version += 1;
        let version = content.version;
        content.values.insert(key.as_str().to_owned(), Value { bytes, version });
        Ok(Some(version))
    }

    async fn delete(&self, key: &Key, expected: Expected) -> Result<bool> {
        let mut content = lock(&self.0);
        let current = content.values.get(key.as_str()).map(|value| value.version);
        if !expected.matches(current) {
            return Ok(false);
        }
        Ok(content.values.remove(key.as_str()).is_some())
    }

    async fn list(&self, range: &Range) -> Result<Vec<Listed>> {
        let listed = |(key, value): (&String, &Value)| Listed {
            key: key.clone(),
            version: value.version,
            size: value.bytes.len() as u64,
        };
        Ok(entries_in_range(&lock(&self.0).values, range).map(listed).collect())
    }

    async fn put_blob(
        &self,
        key: &Key,
        content: impl Stream<Item = Result<Vec<u8>>> + MaybeSend + 'static,
    ) -> Result<u64> {
        let mut content = pin!(content);
        let mut blob = Vec::new();
        while let Some(bytes) = content.try_next().await? {
            blob.extend(bytes);
        }
        let size = blob.len() as u64;
        lock(&self.0).blobs.insert(key.as_str().to_owned(), blob);
        Ok(size)
    }

    async fn read_blob(&self, key: &Key, offset: u64, limit: u64) -> Result<Option<Piece>> {
        let at = |position: u64| usize::try_from(position).unwrap_or(usize::MAX);
        Ok(lock(&self.0).blobs.get(key.as_str()).map(|blob| {
            let start = at(offset).min(blob.len());
            let end = start.saturating_add(at(limit)).min(blob.len());
            Piece { bytes: blob[start..end].to_vec(), size: blob.len() as u64 }
        }))
    }

    async fn delete_blob(&self, key: &Key) -> Result<bool> {
        Ok(lock(&self.0).blobs.remove(key.as_str()).is_some())
    }

    async fn list_blobs(&self, range: &Range) -> Result<Vec<ListedBlob>> {
        let listed =
            |(key, blob): (&String, &Vec<u8>)| ListedBlob { key: key.clone(), size: blob.len() as u64 };
        Ok(entries_in_range(&lock(&self.0).blobs, range).map(listed).collect())
    }
}

fn entries_in_range<'a, T>(
    map: &'a BTreeMap<String, T>,
    range: &'a Range,
) -> impl Iterator<Item = (&'a String, &'a T)> {
    let (start, excluded) = range.start();
    let start = if excluded { Bound::Excluded(start) } else { Bound::Included(start) };
    let all = map.range::<str, _>((start, Bound::Unbounded));
    all.take_while(|(key, _)| key.starts_with(&range.prefix)).take(range.bounded())
}
