//! The databases of agents: one `SQLite` file for each, apart from koze's own tables.
//!
//! | module | job |
//! |---|---|
//! | `authorize` | decides what a statement may do |
//! | `run` | runs one statement |
//! | `schema` | lists the tables |
//! | `values` | values as JSON |

mod authorize;
mod run;
mod schema;
mod values;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rusqlite::Connection;
use rusqlite::config::DbConfig;
use rusqlite::limits::Limit;
use serde_json::Value;

use super::super::launch::{Weakness, Weaknesses};
use super::super::{engine, layout};
use koze_core::error::{Code, Error, Result};
use koze_core::script::Query;

use self::authorize::Refusal;

/// How many databases are open at once.
const OPEN: usize = 32;
/// The largest database in bytes.
const MAX_SIZE: u64 = 100_000_000;
/// The time that a statement may take.
const TIME: Duration = Duration::from_secs(5);
/// After how many steps of a statement its time is checked.
const STEPS: i32 = 1000;
/// The limits of Durable Objects.
const LIMITS: &[(Limit, i32)] = &[
    (Limit::SQLITE_LIMIT_LENGTH, 2_200_000),
    (Limit::SQLITE_LIMIT_SQL_LENGTH, 100_000),
    (Limit::SQLITE_LIMIT_COLUMN, 100),
    (Limit::SQLITE_LIMIT_EXPR_DEPTH, 100),
    (Limit::SQLITE_LIMIT_COMPOUND_SELECT, 5),
    (Limit::SQLITE_LIMIT_FUNCTION_ARG, 32),
    (Limit::SQLITE_LIMIT_ATTACHED, 0),
    (Limit::SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 50),
    (Limit::SQLITE_LIMIT_VARIABLE_NUMBER, 100),
    (Limit::SQLITE_LIMIT_TRIGGER_DEPTH, 10),
    (Limit::SQLITE_LIMIT_WORKER_THREADS, 0),
];

/// The databases of the agents of a state directory.
#[derive(Debug)]
pub(in super::super) struct Databases {
    directory: PathBuf,
    /// Whether statements are limited.
    limited: bool,
    open: Mutex<BTreeMap<String, Open>>,
}

/// An open database, and when it was last used.
type Open = (Instant, Arc<Mutex<Database>>);

/// The database of an agent.
#[derive(Debug)]
struct Database {
    connection: Connection,
    /// Why the authorizer refused the last statement.
    refusal: Refusal,
    /// When the current statement has to end.
    end: Arc<Mutex<Option<Instant>>>,
}

impl Databases {
    pub(in super::super) fn new(state: &Path, weak: &Weaknesses) -> Self {
        let directory = state.join("scripts").join("databases");
        Databases { directory, limited: !weak.has(&Weakness::Statements), open: Mutex::default() }
    }

    /// Answers a query of an agent.
    pub(in super::super) async fn answer(self: &Arc<Self>, agent: String, query: Query) -> Result<Value> {
        let databases = Arc::clone(self);
        engine::block(move || {
            let database = databases.of(&agent)?;
            let mut database = database.lock().unwrap_or_else(PoisonError::into_inner);
            match query {
                Query::Sql { sql, params } => run::run(&mut database, &sql, &params),
                Query::Schema => schema::schema(&database),
            }
        })
        .await
    }

    /// Returns the database of an agent. Creates it if it does not exist.
    fn of(&self, agent: &str) -> Result<Arc<Mutex<Database>>> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((used, known)) = open.get_mut(agent) {
            *used = Instant::now();
            return Ok(Arc::clone(known));
        }
        std::fs::create_dir_all(&self.directory).map_err(|error| {
            let text = format!("the database cannot be created: {}", error.kind());
            Error::new(Code::Unavailable, text).with_source(error)
        })?;
        let path = layout::directory(&self.directory, agent).with_extension("db");
        let database = Arc::new(Mutex::new(Database::open(&path, self.limited).map_err(unusable)?));
        if open.len() >= OPEN {
            let oldest = open.iter().min_by_key(|(_, (used, _))| *used).map(|(agent, _)| agent.clone());
            oldest.and_then(|oldest| open.remove(&oldest));
        }
        open.insert(agent.to_owned(), (Instant::now(), Arc::clone(&database)));
        Ok(database)
    }
}

impl Database {
    fn open(path: &Path, limited: bool) -> rusqlite::Result<Self> {
        let mut connection = Connection::open(path)?;
        let refusal = Refusal::default();
        let end = Arc::new(Mutex::new(None));
        if !limited {
            return Ok(Database { connection, refusal, end });
        }
        connection.busy_timeout(TIME)?;
        connection.pragma_update(None, "journal_mode", "wal")?;
        connection.pragma_update(None, "synchronous", "normal")?;
        connection.pragma_update(None, "foreign_keys", true)?;
        connection.pragma_update(None, "temp_store", "memory")?;
        let page: u64 = connection.pragma_query_value(None, "page_size", |row| row.get(0))?;
        connection.pragma_update(None, "max_page_count", MAX_SIZE / page)?;
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

    /// Runs work within the time of a statement.
    fn timed<T>(&mut self, work: impl FnOnce(&Connection) -> Result<T>) -> Result<T> {
        *self.end.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now() + TIME);
        self.refusal.take();
        let done = work(&self.connection);
        *self.end.lock().unwrap_or_else(PoisonError::into_inner) = None;
        done
    }

    /// Returns the error of a statement, with the reason if it was refused.
    fn failed(refusal: &Refusal, error: &rusqlite::Error) -> Error {
        use rusqlite::ErrorCode::{DiskFull, OperationInterrupted};
        if let Some(reason) = refusal.take() {
            return Error::new(Code::PermissionDenied, reason);
        }
        let (code, message) = match error.sqlite_error_code() {
            Some(OperationInterrupted) => {
                let text = format!(
                    "the statement reached its time limit of {} s: read or change fewer rows",
                    TIME.as_secs()
                );
                (Code::Timeout, text)
            }
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

/// Returns the error for a database that cannot be opened, without `SQLite`'s own text, which may contain its path.
fn unusable(error: rusqlite::Error) -> Error {
    let cause = error.sqlite_error().map_or_else(|| "unexpected content".to_owned(), ToString::to_string);
    Error::new(Code::Unavailable, format!("the database cannot be used: {cause}")).with_source(error)
}
