//! The database of an agent, as it is open in its process.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use koze_script::protocol::Json;
use rusqlite::Connection;
use rusqlite::config::DbConfig;
use rusqlite::limits::Limit;

use super::authorize::Refusal;
use super::{MAX_SIZE, TIME, run, schema};
use koze_core::error::{Code, Error, Result};
use koze_core::script::Query;

/// The heap of `SQLite` in bytes, which is all memory of a process that it counts: the pages in use, values, and what a
/// statement sorts, groups or finds recursively.
const HEAP: u64 = 64 << 20;
/// How long a statement waits for another program's write: less than its time, so that the reason is known.
const BUSY: Duration = Duration::from_secs(4);
/// After how many steps of a statement its time is checked.
const STEPS: i32 = 1000;
/// The limits of Durable Objects.
const LIMITS: &[(Limit, i32)] = &[
    (Limit::SQLITE_LIMIT_LENGTH, 2_200_000),
    (Limit::SQLITE_LIMIT_SQL_LENGTH, 100_000),
    (Limit::SQLITE_LIMIT_COLUMN, 100),
    (Limit::SQLITE_LIMIT_EXPR_DEPTH, 100),
    (Limit::SQLITE_LIMIT_COMPOUND_SELECT, 5),
    (Limit::SQLITE_LIMIT_VDBE_OP, 25_000),
    (Limit::SQLITE_LIMIT_FUNCTION_ARG, 32),
    (Limit::SQLITE_LIMIT_ATTACHED, 0),
    (Limit::SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 50),
    (Limit::SQLITE_LIMIT_VARIABLE_NUMBER, 100),
    (Limit::SQLITE_LIMIT_TRIGGER_DEPTH, 10),
    (Limit::SQLITE_LIMIT_WORKER_THREADS, 0),
];

/// The database of an agent.
#[derive(Debug)]
pub(super) struct Database {
    pub(super) connection: Connection,
    /// Why the authorizer refused the last statement.
    pub(super) refusal: Refusal,
    /// When the current statement has to end.
    end: Arc<Mutex<Option<Instant>>>,
}

impl Database {
    /// Opens a database, and creates it if it is missing. Only the control of a proof has one without limits.
    pub(super) fn open(path: &Path, limited: bool) -> rusqlite::Result<Self> {
        let mut connection = Connection::open(path)?;
        let refusal = Refusal::default();
        let end = Arc::new(Mutex::new(None));
        if !limited {
            return Ok(Database { connection, refusal, end });
        }
        connection.busy_timeout(BUSY)?;
        connection.pragma_update(None, "journal_mode", "wal")?;
        connection.pragma_update(None, "synchronous", "normal")?;
        connection.pragma_update(None, "foreign_keys", true)?;
        connection.pragma_update(None, "temp_store", "memory")?;
        let page: u64 = connection.pragma_query_value(None, "page_size", |row| row.get(0))?;
        connection.pragma_update(None, "max_page_count", MAX_SIZE / page)?;
        connection.pragma_update(None, "hard_heap_limit", HEAP)?;
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true)?;
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_TRUSTED_SCHEMA, false)?;
        for (limit, most) in LIMITS {
            connection.set_limit(*limit, *most)?;
        }
        connection.authorizer(Some(refusal.authorizer()))?;
        let until = Arc::clone(&end);
        let is_over = move || {
            let until = until.lock().unwrap_or_else(PoisonError::into_inner);
            until.is_some_and(|until| Instant::now() >= until)
        };
        connection.progress_handler(STEPS, Some(is_over))?;
        Ok(Database { connection, refusal, end })
    }

    /// Answers a query.
    pub(super) fn answer(&mut self, query: &Query) -> Result<Json> {
        match query {
            Query::Sql { sql, params } => run::run_statement(self, sql, params),
            Query::Schema => schema::read_schema(self),
        }
    }

    /// Runs work within the time of a statement.
    pub(super) fn timed<T>(&mut self, work: impl FnOnce(&Connection) -> Result<T>) -> Result<T> {
        *self.end.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now() + TIME);
        self.refusal.take();
        let done = work(&self.connection);
        *self.end.lock().unwrap_or_else(PoisonError::into_inner) = None;
        done
    }

    /// Returns the error of a statement, with the reason if it was refused.
    pub(super) fn failed(refusal: &Refusal, error: &rusqlite::Error) -> Error {
        use rusqlite::ErrorCode::{DiskFull, OperationInterrupted, OutOfMemory};
        if let Some(reason) = refusal.take() {
            return Error::new(Code::PermissionDenied, reason);
        }
        let (code, message) = match error.sqlite_error_code() {
            Some(OperationInterrupted) => return late_error(),
            Some(OutOfMemory) => return memory_error(),
            Some(DiskFull) => {
                let text =
                    format!("the database is full: it may have {} MB; delete rows", MAX_SIZE / 1_000_000);
                (Code::TooLarge, text)
            }
            _ => (
                Code::InvalidInput,
                match error {
                    rusqlite::Error::SqlInputError { msg, offset, .. } if *offset >= 0 => {
                        format!("{msg} (at byte {offset} of the statement)")
                    }
                    rusqlite::Error::SqlInputError { msg, .. } => msg.clone(),
                    error => error.to_string(),
                },
            ),
        };
        Error::new(code, message)
    }
}

/// Returns the error of a statement that took too long.
pub(super) fn late_error() -> Error {
    let text =
        format!("the statement reached its time limit of {} s: read or change fewer rows", TIME.as_secs());
    Error::new(Code::Timeout, text)
}

/// Returns the error of a statement that needs too much memory.
pub(super) fn memory_error() -> Error {
    let text = format!(
        "the statement needs more than its {} MiB of memory: sort, group or join fewer rows, or add an index",
        HEAP >> 20
    );
    Error::new(Code::TooLarge, text)
}

/// Returns the error for a database that cannot be opened, without `SQLite`'s own text, which may contain its path.
pub(super) fn unusable_error(error: rusqlite::Error) -> Error {
    let cause = error.sqlite_error().map_or_else(|| "unexpected content".to_owned(), ToString::to_string);
    Error::new(Code::Unavailable, format!("the database cannot be used: {cause}")).with_source(error)
}
