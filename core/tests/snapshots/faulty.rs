//! A store that fails, hangs, or returns wrong bytes when a test wants it to.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use futures_util::{Stream, StreamExt as _};
use koze_core::id::SandboxId;
use koze_core::maybe_send::MaybeSend;
use koze_core::provider::memory::{Memory, MemorySandbox, MemoryStore};
use koze_core::provider::{Info, Opened, ScriptProvider, Settings};
use koze_core::sandbox::Piece;
use koze_core::store::{Expected, Key, Listed, ListedBlob, Range, Store, Value};
use koze_core::workspace::OpenLimits;
use koze_core::{Code, Error, Provider, Result, SessionId};

/// A store whose blobs can be made to fail or to change.
#[derive(Clone, Default)]
pub(crate) struct Faulty {
    memory: Memory,
    limits: OpenLimits,
    pub(crate) faults: Arc<Faults>,
}

#[derive(Default)]
pub(crate) struct Faults {
    /// How many bytes of a blob are written or read until the store fails; 0 means that it does not fail.
    pub(crate) writes: AtomicU64,
    pub(crate) reads: AtomicU64,
    /// The byte that is wrong when a blob is read.
    pub(crate) wrong: Mutex<Option<u64>>,
    /// Whether values can be written.
    pub(crate) read_only: Mutex<bool>,
    /// Whether the store does not answer where it would fail.
    pub(crate) hangs: Mutex<bool>,
}

impl Faults {
    async fn fail(&self) -> Error {
        if *self.hangs.lock().unwrap() {
            std::future::pending::<()>().await;
        }
        broken()
    }
}

#[derive(Clone)]
pub(crate) struct FaultyStore(MemoryStore, Arc<Faults>);

pub(crate) fn broken() -> Error {
    Error::new(Code::Unavailable, "the store is broken")
}

impl ScriptProvider for Faulty {}

impl Provider for Faulty {
    type Sandbox = MemorySandbox;
    type Store = FaultyStore;

    fn open_limits(&self) -> &OpenLimits {
        &self.limits
    }

    async fn open(&self, id: &SandboxId, settings: &Settings) -> Result<Opened<MemorySandbox>> {
        self.memory.open(id, settings).await
    }

    async fn find(&self, id: &SandboxId) -> Result<Option<Opened<MemorySandbox>>> {
        self.memory.find(id).await
    }

    async fn list(&self, session: &SessionId) -> Result<Vec<Info>> {
        self.memory.list(session).await
    }

    fn store(&self, session: &SessionId) -> Result<FaultyStore> {
        Ok(FaultyStore(self.memory.store(session)?, Arc::clone(&self.faults)))
    }
}

impl Store for FaultyStore {
    async fn get(&self, key: &Key) -> Result<Option<Value>> {
        self.0.get(key).await
    }

    async fn put(&self, key: &Key, bytes: Vec<u8>, expected: Expected) -> Result<Option<u64>> {
        let read_only = *self.1.read_only.lock().unwrap();
        if read_only {
            return Err(self.1.fail().await);
        }
        self.0.put(key, bytes, expected).await
    }

    async fn delete(&self, key: &Key, expected: Expected) -> Result<bool> {
        self.0.delete(key, expected).await
    }

    async fn list(&self, range: &Range) -> Result<Vec<Listed>> {
        self.0.list(range).await
    }

    async fn put_blob(
        &self,
        key: &Key,
        content: impl Stream<Item = Result<Vec<u8>>> + MaybeSend + 'static,
    ) -> Result<u64> {
        let most = self.1.writes.load(Ordering::SeqCst);
        let mut size = 0;
        let content = content.map(move |piece| {
            size += piece.as_ref().map_or(0, |piece| piece.len() as u64);
            if most > 0 && size > most { Err(broken()) } else { piece }
        });
        self.0.put_blob(key, content).await
    }

    async fn read_blob(&self, key: &Key, offset: u64, limit: u64) -> Result<Option<Piece>> {
        let most = self.1.reads.load(Ordering::SeqCst);
        let limit = if most > 0 { limit.min(most) } else { limit };
        if most > 0 && offset >= most {
            return Err(self.1.fail().await);
        }
        let mut piece = self.0.read_blob(key, offset, limit).await?;
        if let (Some(piece), Some(wrong)) = (&mut piece, *self.1.wrong.lock().unwrap())
            && let Some(byte) = piece.bytes.get_mut(usize::try_from(wrong - offset).unwrap())
        {
            *byte ^= 1;
        }
        Ok(piece)
    }

    async fn delete_blob(&self, key: &Key) -> Result<bool> {
        self.0.delete_blob(key).await
    }

    async fn list_blobs(&self, range: &Range) -> Result<Vec<ListedBlob>> {
        self.0.list_blobs(range).await
    }
}
