//! The database of the stores: values, and which file holds a blob.

use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use koze_core::error::{Code, Error, Result};
use koze_core::store::{Expected, Key, Listed, ListedBlob, Range, Value};
use rusqlite::{Connection, OptionalExtension, Row, Transaction, TransactionBehavior, params};

/// The database.
#[derive(Debug)]
pub struct Database(Mutex<Connection>);

impl Database {
    /// Opens the database of a state directory. Creates it if it is missing.
    pub(super) fn open(state: &Path) -> Result<Self> {
        let connect = || {
            let connection = Connection::open(state.join("store.db"))?;
            connection.busy_timeout(Duration::from_secs(10))?;
            connection.pragma_update(None, "journal_mode", "wal")?;
            connection.pragma_update(None, "synchronous", "normal")?;
            connection.execute_batch(
                "create table if not exists store_values (
                    session text not null,
                    key text not null,
                    version integer not null,
                    bytes blob not null,
                    primary key (session, key)
                 ) strict;
                 create table if not exists store_versions (
                    session text primary key,
                    last integer not null
                 ) strict;
                 create table if not exists store_blobs (
                    session text not null,
                    key text not null,
                    size integer not null,
                    file text not null unique,
                    primary key (session, key)
                 ) strict;
                 create table if not exists store_layers (
                    session text not null,
                    key text not null,
                    size integer not null,
                    name text not null unique,
                    primary key (session, key)
                 ) strict;",
            )?;
            Ok(connection)
        };
        Ok(Database(Mutex::new(connect().map_err(database_error)?)))
    }

    fn with<T>(&self, work: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T> {
        work(&self.0.lock().unwrap_or_else(PoisonError::into_inner)).map_err(database_error)
    }

    /// Runs work in a transaction, so that no other program writes between its reads and writes.
    fn write<T>(&self, work: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>) -> Result<T> {
        self.with(|connection| {
            let transaction = Transaction::new_unchecked(connection, TransactionBehavior::Immediate)?;
            let result = work(&transaction)?;
            transaction.commit()?;
            Ok(result)
        })
    }

    pub(super) fn get(&self, session: &str, key: &Key) -> Result<Option<Value>> {
        let query = "select bytes, version from store_values where session = ? and key = ?";
        let value = |row: &Row<'_>| Ok(Value { bytes: row.get(0)?, version: row.get(1)? });
        self.with(|connection| {
            connection.prepare_cached(query)?.query_row(params![session, key.as_str()], value).optional()
        })
    }

    pub(super) fn put(
        &self,
        session: &str,
        key: &Key,
        bytes: &[u8],
        expected: Expected,
    ) -> Result<Option<u64>> {
        self.write(|transaction| {
            if !expected.matches(current_version(transaction, session, key)?) {
                return Ok(None);
            }
            let version: u64 = transaction.query_row(
                "insert into store_versions (session, last) values (?, 1)
                 on conflict do update set last = last + 1 returning last",
                [session],
                |row| row.get(0),
            )?;
            transaction.execute(
                "insert or replace into store_values (session, key, version, bytes) values (?, ?, ?, ?)",
                params![session, key.as_str(), version, bytes],
            )?;
            Ok(Some(version))
        })
    }

    pub(super) fn delete(&self, session: &str, key: &Key, expected: Expected) -> Result<bool> {
        self.write(|transaction| {
            if !expected.matches(current_version(transaction, session, key)?) {
                return Ok(false);
            }
            let deleted = transaction.execute(
                "delete from store_values where session = ? and key = ?",
                params![session, key.as_str()],
            )?;
            Ok(deleted == 1)
        })
    }

    pub(super) fn list(&self, session: &str, range: &Range) -> Result<Vec<Listed>> {
        let listed = |row: &Row<'_>| Ok(Listed { key: row.get(0)?, version: row.get(1)?, size: row.get(2)? });
        self.range("select key, version, length(bytes) from store_values", session, range, listed)
    }

    /// Returns the file and the size of a blob.
    pub(super) fn blob(&self, session: &str, key: &Key) -> Result<Option<(String, u64)>> {
        let query = "select file, size from store_blobs where session = ? and key = ?";
        self.with(|connection| {
            let found = connection
                .query_row(query, params![session, key.as_str()], |row| Ok((row.get(0)?, row.get(1)?)));
            found.optional()
        })
    }

    /// Records the file of a blob. Returns the file that it replaces.
    pub(super) fn put_blob(&self, session: &str, key: &Key, size: u64, file: &str) -> Result<Option<String>> {
        self.write(|transaction| {
            let replaced = take_blob(transaction, session, key)?;
            transaction.execute(
                "insert into store_blobs (session, key, size, file) values (?, ?, ?, ?)",
                params![session, key.as_str(), size, file],
            )?;
            Ok(replaced)
        })
    }

    /// Deletes the record of a blob. Returns its file.
    pub(super) fn delete_blob(&self, session: &str, key: &Key) -> Result<Option<String>> {
        self.write(|transaction| take_blob(transaction, session, key))
    }

    /// Lists blobs and layers.
    pub(super) fn list_blobs(&self, session: &str, range: &Range) -> Result<Vec<ListedBlob>> {
        let listed = |row: &Row<'_>| Ok(ListedBlob { key: row.get(0)?, size: row.get(1)? });
        let all = "select key, size from (select session, key, size from store_blobs
                   union all select session, key, size from store_layers)";
        self.range(all, session, range, listed)
    }

    /// Records the name of a layer.
    ///
    /// # Errors
    /// [`Code::Unavailable`] if the database cannot be used.
    pub fn put_layer(&self, session: &str, key: &Key, size: u64, name: &str) -> Result<()> {
        let insert = "insert into store_layers (session, key, size, name) values (?, ?, ?, ?)";
        self.with(|connection| {
            connection.execute(insert, params![session, key.as_str(), size, name]).map(drop)
        })
    }

    /// Returns the name of a layer.
    ///
    /// # Errors
    /// [`Code::Unavailable`] if the database cannot be used.
    pub fn layer(&self, session: &str, key: &Key) -> Result<Option<String>> {
        let query = "select name from store_layers where session = ? and key = ?";
        self.with(|connection| {
            connection.query_row(query, params![session, key.as_str()], |row| row.get(0)).optional()
        })
    }

    /// Deletes the record of a layer. Returns its name.
    ///
    /// # Errors
    /// [`Code::Unavailable`] if the database cannot be used.
    pub fn delete_layer(&self, session: &str, key: &Key) -> Result<Option<String>> {
        let query = "delete from store_layers where session = ? and key = ? returning name";
        self.with(|connection| {
            connection.query_row(query, params![session, key.as_str()], |row| row.get(0)).optional()
        })
    }

    /// Returns whether a layer is recorded.
    ///
    /// # Errors
    /// [`Code::Unavailable`] if the database cannot be used.
    pub fn has_layer(&self, name: &str) -> Result<bool> {
        self.with(|connection| {
            connection.prepare_cached("select 1 from store_layers where name = ?")?.exists([name])
        })
    }

    /// Returns whether a file holds a blob.
    pub(super) fn has_file(&self, file: &str) -> Result<bool> {
        self.with(|connection| {
            connection.prepare_cached("select 1 from store_blobs where file = ?")?.exists([file])
        })
    }

    fn range<T>(
        &self,
        select: &str,
        session: &str,
        range: &Range,
        row: impl Fn(&Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>> {
        let (start, excluded) = range.start();
        let from = if excluded { ">" } else { ">=" };
        let query = format!(
            "{select} where session = ?1 and key {from} ?2 and substr(key, 1, length(?3)) = ?3
             order by key limit ?4"
        );
        self.with(|connection| {
            let mut query = connection.prepare_cached(&query)?;
            let parameters = params![session, start, range.prefix, range.bounded()];
            query.query_map(parameters, row)?.collect()
        })
    }
}

fn current_version(transaction: &Transaction<'_>, session: &str, key: &Key) -> rusqlite::Result<Option<u64>> {
    let query = "select version from store_values where session = ? and key = ?";
    transaction.query_row(query, params![session, key.as_str()], |row| row.get(0)).optional()
}

fn take_blob(transaction: &Transaction<'_>, session: &str, key: &Key) -> rusqlite::Result<Option<String>> {
    let query = "delete from store_blobs where session = ? and key = ? returning file";
    transaction.query_row(query, params![session, key.as_str()], |row| row.get(0)).optional()
}

/// Returns the error without `SQLite`'s own text, which may contain the path of the database.
fn database_error(error: rusqlite::Error) -> Error {
    let cause = error.sqlite_error().map_or_else(|| "unexpected content".to_owned(), ToString::to_string);
    Error::new(Code::Unavailable, format!("the store cannot be used: {cause}")).with_source(error)
}
