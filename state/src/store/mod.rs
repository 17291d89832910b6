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
pub use self::database::Database;
use crate::errors::gone_error;
use crate::runtime;

/// How many threads work on the files of the stores at once.
const AT_ONCE: usize = 16;

/// The stores of a state directory. The files are created when a store is first used.
#[derive(Debug)]
pub struct Stores {
    state: PathBuf,
    sweep: fn(&Path, &Database) -> Result<()>,
    files: OnceLock<Files>,
    /// The turns of those that work on the files. Others wait without a thread, so that they keep none from other work.
    turns: Arc<Semaphore>,
}

#[derive(Debug)]
struct Files {
    database: Database,
    blobs: Blobs,
}

impl Stores {
    /// Returns the stores of a state directory. When they are first used, `sweep` removes what killed processes have left next to
    /// them.
    pub fn new(state: PathBuf, sweep: fn(&Path, &Database) -> Result<()>) -> Self {
        Stores { state, sweep, files: OnceLock::new(), turns: Arc::new(Semaphore::new(AT_ONCE)) }
    }

    /// Returns the database. Call it on a thread that may block.
    ///
    /// # Errors
    /// [`koze_core::Code::Unavailable`] if the files cannot be used.
    pub fn database(&self) -> Result<&Database> {
        Ok(&self.files()?.database)
    }

    fn files(&self) -> Result<&Files> {
        if let Some(files) = self.files.get() {
            return Ok(files);
        }
        let (database, blobs) = (Database::open(&self.state)?, Blobs::open(&self.state)?);
        blobs.sweep(&database)?;
        (self.sweep)(&self.state, &database)?;
        Ok(self.files.get_or_init(|| Files { database, blobs }))
    }
}

/// The store of a session on this machine.
#[derive(Debug, Clone)]
pub struct SessionStore {
    stores: Arc<Stores>,
    session: String,
}

impl SessionStore {
    /// Returns the store of a session.
    pub fn new(stores: &Arc<Stores>, session: &SessionId) -> Self {
        SessionStore { stores: Arc::clone(stores), session: session.key() }
    }

    /// Returns the stores of its state directory.
    pub fn stores(&self) -> &Arc<Stores> {
        &self.stores
    }

    /// Returns the key of its session.
    pub fn session(&self) -> &str {
        &self.session
    }

    /// Runs blocking work on the database, which gets the key of the session.
    ///
    /// # Errors
    /// The errors of the work, and [`koze_core::Code::Unavailable`] if the files cannot be used.
    pub async fn with_database<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Database, &str) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.with(move |files, session| work(&files.database, session)).await
    }

    /// Runs blocking work on the files of the store.
    async fn with<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Files, &str) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let SessionStore { stores, session } = self.clone();
        let turn = Arc::clone(&stores.turns).acquire_owned().await.map_err(|_| gone_error())?;
        runtime::run_blocking(move || {
            // Held until the work is done, even if the caller stops waiting.
            let _turn = turn;
            work(stores.files()?, &session)
        })
        .await
    }
}

impl Store for SessionStore {
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
            upload = runtime::run_blocking(move || upload.write(&bytes)).await?;
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
            Ok(deleted.is_some())
        })
        .await
    }

    async fn list_blobs(&self, range: &Range) -> Result<Vec<ListedBlob>> {
        let range = range.clone();
        self.with(move |files, session| files.database.list_blobs(session, &range)).await
    }
}
