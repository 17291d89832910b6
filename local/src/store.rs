//! The store of a session on this machine, with the snapshots that are kept as layers.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures_util::Stream;
use koze_core::error::Result;
use koze_core::id::SessionId;
use koze_core::maybe_send::MaybeSend;
use koze_core::sandbox::Piece;
use koze_core::store::{Expected, Key, Listed, ListedBlob, Range, Store, Value};
use koze_state::{Database, SessionStore, Stores};

use crate::host::layout::Own;
use crate::layers::{Base, Layer, Layers};

/// Returns the stores of a state directory.
pub(super) fn open_stores(state: &Path) -> Arc<Stores> {
    let sweep = |state: &Path, database: &Database| Layers::new(state).sweep(|name| database.has_layer(name));
    Arc::new(Stores::new(state.to_owned(), sweep))
}

/// Removes a destroyed sandbox from the users of its layer.
pub(super) fn end_base(stores: &Stores, state: &Path, base: &Base, sandbox: &Path) -> Result<()> {
    let database = stores.database()?;
    Layers::new(state).end(base, sandbox, || database.has_layer(&base.layer))
}

/// The store of a session on this machine.
#[derive(Debug, Clone)]
pub struct LocalStore {
    base: SessionStore,
    layers: Layers,
}

impl LocalStore {
    pub(super) fn new(stores: &Arc<Stores>, state: &Path, session: &SessionId) -> Self {
        LocalStore { base: SessionStore::new(stores, session), layers: Layers::new(state) }
    }

    /// Returns the layers of its state directory.
    pub(super) fn layers(&self) -> &Layers {
        &self.layers
    }

    /// Lists a layer under a key. Call it on a thread that may block.
    pub(super) fn list_layer(&self, key: &Key, name: &str, size: u64) -> Result<()> {
        self.base.stores().database()?.put_layer(self.base.session(), key, size, name)
    }

    /// Returns the layer that is listed under a key, if there is one.
    pub(super) async fn layer(&self, key: &Key) -> Result<Option<Layer>> {
        let (layers, key) = (self.layers.clone(), key.clone());
        let find = move |database: &Database, session: &str| {
            let name = database.layer(session, &key)?;
            name.map(|name| layers.get(&name)).transpose()
        };
        self.base.with_database(find).await
    }

    /// Puts a new sandbox on top of a layer: see [`Layers::begin`].
    pub(super) async fn begin(&self, layer: Layer, own: Own, sandbox: PathBuf) -> Result<bool> {
        let layers = self.layers.clone();
        let begin = move |database: &Database, _: &str| {
            layers.begin(&layer, &own, &sandbox, || database.has_layer(layer.name()))
        };
        self.base.with_database(begin).await
    }
}

impl Store for LocalStore {
    async fn get(&self, key: &Key) -> Result<Option<Value>> {
        self.base.get(key).await
    }

    async fn put(&self, key: &Key, bytes: Vec<u8>, expected: Expected) -> Result<Option<u64>> {
        self.base.put(key, bytes, expected).await
    }

    async fn delete(&self, key: &Key, expected: Expected) -> Result<bool> {
        self.base.delete(key, expected).await
    }

    async fn list(&self, range: &Range) -> Result<Vec<Listed>> {
        self.base.list(range).await
    }

    async fn put_blob(
        &self,
        key: &Key,
        content: impl Stream<Item = Result<Vec<u8>>> + MaybeSend + 'static,
    ) -> Result<u64> {
        self.base.put_blob(key, content).await
    }

    async fn read_blob(&self, key: &Key, offset: u64, limit: u64) -> Result<Option<Piece>> {
        self.base.read_blob(key, offset, limit).await
    }

    async fn delete_blob(&self, key: &Key) -> Result<bool> {
        let is_deleted = self.base.delete_blob(key).await?;
        let (layers, key) = (self.layers.clone(), key.clone());
        let delete = move |database: &Database, session: &str| {
            let layer = database.delete_layer(session, &key)?;
            if let Some(name) = &layer {
                // If that fails, the next program removes it.
                let _ = layers.release(name);
            }
            Ok(layer.is_some())
        };
        Ok(self.base.with_database(delete).await? || is_deleted)
    }

    async fn list_blobs(&self, range: &Range) -> Result<Vec<ListedBlob>> {
        self.base.list_blobs(range).await
    }
}
