//! The store of a session on this machine: values in an `SQLite` database of the state directory, blobs in files next to it.
//! Any number of programs may use a state directory at the same time.

mod blobs;
mod database;

use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::{Arc, OnceLock};

use futures_util::{Stream, TryStreamExt};
use koze_core::error::Result;
use koze_core::id::SessionId;
use koze_core::maybe_send::MaybeSend;
use koze_core::sandbox::Piece;
use koze_core::store::{Expected, Key, Listed, ListedBlob, Range, Store, Value, check_size};
use tokio::sync::Semaphore;

use self::blobs::{Blobs, Upload};
use self::database::Database;
use crate::errors::gone_error;
use crate::host::layout::Own;
use crate::layers::{Base, Layer, Layers};
use crate::{Shared, engine};

/// How many threads work on the files of the stores at once.
const AT_ONCE: usize = 16;

/// The stores of a state directory. The files are created when a store is first used.
#[derive(Debug)]
pub(super) struct Stores {
    files: OnceLock<Files>,
    /// The turns of those that work on the files. Others wait without a thread, so that they keep none from other work.
    turns: Arc<Semaphore>,
}

impl Default for Stores {
    fn default() -> Self {
        Stores { files: OnceLock::new(), turns: Arc::new(Semaphore::new(AT_ONCE)) }
    }
}

#[derive(Debug)]
struct Files {
    database: Database,
    blobs: Blobs,
    layers: Layers,
}

impl Stores {
    fn files(&self, state: &Path) -> Result<&Files> {
        if let Some(files) = self.files.get() {
            return Ok(files);
        }
        let (database, blobs) = (Database::open(state)?, Blobs::open(state)?);
        blobs.sweep(&database)?;
        let layers = Layers::new(state);
        layers.sweep(|name| database.has_layer(name))?;
        Ok(self.files.get_or_init(|| Files { database, blobs, layers }))
    }

    /// Removes a destroyed sandbox from the users of its layer.
    pub(super) fn end_base(&self, state: &Path, base: &Base, sandbox: &Path) -> Result<()> {
        let Files { database, layers, .. } = self.files(state)?;
        layers.end(base, sandbox, || database.has_layer(&base.layer))
    }
}

/// The store of a session on this machine.
#[derive(Debug, Clone)]
pub struct LocalStore {
    shared: Arc<Shared>,
    session: String,
}

impl LocalStore {
    pub(super) fn new(shared: &Arc<Shared>, session: &SessionId) -> Self {
        LocalStore { shared: Arc::clone(shared), session: session.key() }
    }

    /// Runs blocking work on the files of the store.
    async fn with<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Files, &str) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let LocalStore { shared, session } = self.clone();
        let turn = Arc::clone(&shared.stores.turns).acquire_owned().await.map_err(|_| gone_error())?;
        engine::run_blocking(move || {
            // Held until the work is done, even if the caller stops waiting.
            let _turn = turn;
            work(shared.stores.files(&shared.state)?, &session)
        })
        .await
    }

    /// Returns the layers of its state directory.
    pub(super) fn layers(&self) -> Layers {
        Layers::new(&self.shared.state)
    }

    /// Lists a layer under a key. Call it on a thread that may block.
    pub(super) fn list_layer(&self, key: &Key, name: &str, size: u64) -> Result<()> {
        self.shared.stores.files(&self.shared.state)?.database.put_layer(&self.session, key, size, name)
    }

    /// Returns the layer that is listed under a key, if there is one.
    pub(super) async fn layer(&self, key: &Key) -> Result<Option<Layer>> {
        let key = key.clone();
        self.with(move |files, session| {
            let name = files.database.layer(session, &key)?;
            name.map(|name| files.layers.get(&name)).transpose()
        })
        .await
    }

    /// Puts a new sandbox on top of a layer: see [`Layers::begin`].
    pub(super) async fn begin(&self, layer: Layer, own: Own, sandbox: PathBuf) -> Result<bool> {
        self.with(move |files, _| {
            files.layers.begin(&layer, &own, &sandbox, || files.database.has_layer(layer.name()))
        })
        .await
    }
}

impl Store for LocalStore {
    async fn get(&self, key: &Key) -> Result<Option<Value>> {
        let key = key.clone();
        self.with(move |files, session| files.database.get(session, &key)).await
    }

    async fn put(&self, key: &Key, bytes: Vec<u8>, expected: Expected) -> Result<Option<u64>> {
        check_size(&bytes)?;
        let key = key.clone();
        self.with(move |files, session| files.database.put(session, &key, &bytes, expected)).await
    }

    async fn delete(&self, key: &Key, expected: Expected) -> Result<bool> {
        let key = key.clone();
        self.with(move |files, session| files.database.delete(session, &key, expected)).await
    }

    async fn list(&self, range: &Range) -> Result<Vec<Listed>> {
        let range = range.clone();
        self.with(move |files, session| files.database.list(session, &range)).await
    }

    async fn put_blob(
        &self,
        key: &Key,
        content: impl Stream<Item = Result<Vec<u8>>> + MaybeSend + 'static,
    ) -> Result<u64> {
        let mut upload = self.with(|files, _| files.blobs.create()).await?;
        let mut content = pin!(content);
        while let Some(bytes) = content.try_next().await? {
            upload = engine::run_blocking(move || upload.write(&bytes)).await?;
        }
        let key = key.clone();
        self.with(move |files, session| {
            let Upload { size, .. } = upload;
            let name = upload.sync()?;
            let replaced = files.database.put_blob(session, &key, size, name)?;
            upload.keep();
            if let Some(name) = &replaced {
                files.blobs.remove(name);
            }
            Ok(size)
        })
        .await
    }

    async fn read_blob(&self, key: &Key, offset: u64, limit: u64) -> Result<Option<Piece>> {
        let key = key.clone();
        self.with(move |files, session| {
            while let Some((name, size)) = files.database.blob(session, &key)? {
                if let Some(bytes) = files.blobs.read(&name, offset, limit)? {
                    return Ok(Some(Piece { bytes, size }));
                }
                // Replaced or deleted since the database was read. If the row is the same, the file is lost.
                if files.database.blob(session, &key)?.is_some_and(|(same, _)| same == name) {
                    return Err(blobs::lost_error());
                }
            }
            Ok(None)
        })
        .await
    }

    async fn delete_blob(&self, key: &Key) -> Result<bool> {
        let key = key.clone();
        self.with(move |files, session| {
            let deleted = files.database.delete_blob(session, &key)?;
            if let Some(name) = &deleted {
                files.blobs.remove(name);
            }
            let layer = files.database.delete_layer(session, &key)?;
            if let Some(name) = &layer {
                // If that fails, the next program removes it.
                let _ = files.layers.release(name);
            }
            Ok(deleted.is_some() || layer.is_some())
        })
        .await
    }

    async fn list_blobs(&self, range: &Range) -> Result<Vec<ListedBlob>> {
        let range = range.clone();
        self.with(move |files, session| files.database.list_blobs(session, &range)).await
    }
}
