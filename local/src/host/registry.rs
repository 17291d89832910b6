//! The registry of sandboxes: an `SQLite` database in the state directory, which any number of programs may use.

use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rusqlite::{Connection, OptionalExtension, params};
use subtle::ConstantTimeEq;

use koze_core::error::{Code, Error, Result};
use koze_core::id::{SandboxId, SandboxName, SessionId};
use koze_core::provider::Settings;
use koze_egress::create_token;

/// The file of the database.
const FILE: &str = "sandboxes.db";

/// The database.
#[derive(Debug)]
pub(crate) struct Registry(Mutex<Connection>);

impl Registry {
    /// Opens the database. Creates it if it is missing.
    pub(crate) fn open(directory: &Path) -> Result<Self> {
        let connect = || {
            let connection = Connection::open(directory.join(FILE))?;
            connection.busy_timeout(Duration::from_secs(10))?;
            connection.pragma_update(None, "journal_mode", "wal")?;
            connection.pragma_update(None, "synchronous", "normal")?;
            connection.pragma_update(None, "foreign_keys", true)?;
            connection.execute_batch(
                "create table if not exists sandboxes (
                    key text primary key,
                    session text not null,
                    name text not null,
                    template text not null,
                    used integer not null,
                    created integer
                 ) strict;
                 create index if not exists by_session on sandboxes (session, name);
                 create table if not exists previews (
                    key text primary key references sandboxes on delete cascade,
                    name text not null,
                    token text not null
                 ) strict;
                 create index if not exists by_name on previews (name);",
            )?;
            add_creation_times(&connection)?;
            Ok(connection)
        };
        Ok(Registry(Mutex::new(connect().map_err(database_error)?)))
    }

    fn with<T>(&self, work: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T> {
        work(&self.0.lock().unwrap_or_else(PoisonError::into_inner)).map_err(database_error)
    }

    /// Registers a sandbox. Returns its settings, and whether it was created now.
    pub(crate) fn enter(&self, id: &SandboxId, settings: &Settings) -> Result<(Settings, bool)> {
        let (key, session) = (id.key(), id.session.key());
        let text = serde_json::to_string(settings).map_err(|error| damaged_error(&error))?;
        let (stored, made) = self.with(|connection| {
            let made = connection.execute(
                "insert or ignore into sandboxes (key, session, name, template, used, created) values (?1, ?2, ?3, ?4, ?5, ?5)",
                params![key, session, id.name.as_str(), text, now_seconds()],
            )?;
            let stored: Option<String> = connection
                .query_row("select template from sandboxes where key = ?", [&key], |row| row.get(0))
                .optional()?;
            Ok((stored, made == 1))
        })?;
        match stored {
            Some(stored) => Ok((serde_json::from_str(&stored).map_err(|error| damaged_error(&error))?, made)),
            None => Err(Error::new(Code::Unavailable, "the sandbox was destroyed at the same time")),
        }
    }

    /// Returns the settings of a sandbox, if it exists.
    pub(crate) fn find(&self, key: &str) -> Result<Option<Settings>> {
        let stored: Option<String> = self.with(|connection| {
            let query = "select template from sandboxes where key = ?";
            connection.query_row(query, [key], |row| row.get(0)).optional()
        })?;
        stored.map(|text| serde_json::from_str(&text).map_err(|error| damaged_error(&error))).transpose()
    }

    /// Changes the settings of a sandbox.
    pub(crate) fn change(&self, key: &str, settings: &Settings) -> Result<()> {
        let text = serde_json::to_string(settings).map_err(|error| damaged_error(&error))?;
        self.with(|connection| {
            connection
                .execute("update sandboxes set template = ? where key = ?", params![text, key])
                .map(drop)
        })
    }

    /// Returns whether a sandbox exists.
    pub(crate) fn knows(&self, key: &str) -> Result<bool> {
        self.with(|connection| {
            let found = connection.query_row("select 1 from sandboxes where key = ?", [key], |_| Ok(()));
            Ok(found.optional()?.is_some())
        })
    }

    /// Records a use of a sandbox.
    pub(crate) fn used(&self, key: &str) -> Result<()> {
        self.with(|connection| {
            connection
                .execute("update sandboxes set used = ? where key = ?", params![now_seconds(), key])
                .map(drop)
        })
    }

    /// Removes a sandbox.
    pub(crate) fn leave(&self, key: &str) -> Result<()> {
        self.with(|connection| connection.execute("delete from sandboxes where key = ?", [key]).map(drop))
    }

    /// Returns the token in the preview URLs of a sandbox, which stays the same while the sandbox exists.
    pub(crate) fn token(&self, key: &str) -> Result<String> {
        let new = create_token()?;
        let stored = self.with(|connection| {
            connection.execute(
                "insert or ignore into previews (key, name, token) select key, name, ? from sandboxes where key = ?",
                [&new, key],
            )?;
            let mut query = connection.prepare_cached("select token from previews where key = ?")?;
            query.query_row([key], |row| row.get(0)).optional()
        })?;
        stored.ok_or_else(|| Error::new(Code::NotFound, "the sandbox was destroyed"))
    }

    /// Returns whether any sandbox has a token.
    pub(crate) fn exposed(&self) -> Result<bool> {
        self.with(|connection| {
            connection.query_row("select exists (select 1 from previews)", [], |row| row.get(0))
        })
    }

    /// Returns the key and the settings of the sandbox with this name and token.
    pub(crate) fn exposed_as(&self, name: &str, token: &str) -> Result<Option<(String, Settings)>> {
        let rows = self.with(|connection| {
            let mut query = connection.prepare_cached(
                "select key, template, token from previews join sandboxes using (key) where previews.name = ?",
            )?;
            let rows = query.query_map([name], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
            rows.collect::<rusqlite::Result<Vec<(String, String, String)>>>()
        })?;
        // Compare in constant time.
        let right = |stored: &str| bool::from(stored.as_bytes().ct_eq(token.as_bytes()));
        let found = rows.into_iter().find(|(_, _, stored)| right(stored));
        found
            .map(|(key, text, _)| {
                Ok((key, serde_json::from_str(&text).map_err(|error| damaged_error(&error))?))
            })
            .transpose()
    }

    /// Returns the sessions that have sandboxes, ordered by key.
    pub(crate) fn sessions(&self) -> Result<Vec<SessionId>> {
        let keys = self.with(|connection| {
            let mut query = connection.prepare("select distinct session from sandboxes order by session")?;
            query.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<Vec<String>>>()
        })?;
        keys.iter().map(|key| SessionId::from_key(key)).collect()
    }

    /// Returns all sandboxes, ordered by session and name.
    pub(crate) fn rows(&self) -> Result<Vec<Row>> {
        let rows = self.with(|connection| {
            let mut query = connection.prepare(
                "select session, name, template, used, created, exists (select 1 from previews where previews.key = sandboxes.key)
                 from sandboxes order by session, name",
            )?;
            let rows = query.query_map([], |row| {
                Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?, row.get(5)?))
            })?;
            rows.collect::<rusqlite::Result<Vec<(String, String, String, i64, Option<i64>, bool)>>>()
        })?;
        let to_row =
            |(session, name, template, used, created, is_exposed): (String, String, String, _, _, _)| {
                Ok(Row {
                    id: SandboxId { session: SessionId::from_key(&session)?, name: SandboxName::new(&name)? },
                    settings: serde_json::from_str(&template).map_err(|error| damaged_error(&error))?,
                    used,
                    created,
                    is_exposed,
                })
            };
        rows.into_iter().map(to_row).collect()
    }

    /// Returns a session's sandboxes ordered by name, with their settings.
    pub(crate) fn list(&self, session: &SessionId) -> Result<Vec<(String, Settings)>> {
        let rows = self.with(|connection| {
            let mut query = connection
                .prepare_cached("select name, template from sandboxes where session = ? order by name")?;
            let rows = query.query_map([session.key()], |row| Ok((row.get(0)?, row.get(1)?)))?;
            rows.collect::<rusqlite::Result<Vec<(String, String)>>>()
        })?;
        rows.into_iter()
            .map(|(name, text)| {
                Ok((name, serde_json::from_str(&text).map_err(|error| damaged_error(&error))?))
            })
            .collect()
    }
}

/// Adds the column of creation times to a database that an earlier koze has created.
fn add_creation_times(connection: &Connection) -> rusqlite::Result<()> {
    let has_column = || {
        let query = "select exists (select 1 from pragma_table_info('sandboxes') where name = 'created')";
        connection.query_row(query, [], |row| row.get::<_, bool>(0))
    };
    if has_column()? {
        return Ok(());
    }
    match connection.execute("alter table sandboxes add column created integer", []) {
        // Another program may have added it meanwhile.
        Err(error) if !has_column()? => Err(error),
        _ => Ok(()),
    }
}

/// A sandbox in the registry. Times are in seconds since the epoch.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) id: SandboxId,
    pub(crate) settings: Settings,
    /// When it was last started or put to sleep.
    pub(crate) used: i64,
    /// When it was created, if a koze that records it has done so.
    pub(crate) created: Option<i64>,
    /// Whether it has a preview.
    pub(crate) is_exposed: bool,
}

fn now_seconds() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

/// Returns the error without `SQLite`'s own text, which may contain the path of the database.
fn database_error(error: rusqlite::Error) -> Error {
    let cause = error.sqlite_error().map_or_else(|| "unexpected content".to_owned(), ToString::to_string);
    Error::new(
        Code::Internal,
        format!("the registry of sandboxes, `{FILE}` in the state directory, cannot be used: {cause}"),
    )
    .with_source(error)
}

fn damaged_error(error: &serde_json::Error) -> Error {
    Error::new(
        Code::Internal,
        format!(
            "the registry of sandboxes, `{FILE}` in the state directory, has unexpected content: {error}"
        ),
    )
}
