//! Reads the journal of tool calls.

use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use koze_core::error::{Code, Error, Result};
use koze_core::journal::CallRecord;
use percent_encoding::{NON_ALPHANUMERIC, percent_encode};
use rusqlite::{Connection, OpenFlags, Row, params};

use crate::journal::BUSY_TIMEOUT;

/// Which calls of a journal to read.
#[derive(Debug, Clone, Default)]
pub struct CallsQuery {
    /// Only those of this session.
    pub session: Option<String>,
    /// The oldest ones after this ID. By default, the newest ones.
    pub after: Option<u64>,
    /// Only the one with this ID.
    pub id: Option<u64>,
    /// At most this many. By default, all.
    pub limit: Option<u64>,
}

/// Reads calls of the journal in a file, oldest first. A journal that does not exist has none.
///
/// # Errors
/// [`Code::Unavailable`] if it cannot be read.
pub fn read_calls(path: &Path, query: &CallsQuery) -> Result<Vec<CallRecord>> {
    read_journal(path, |connection| select_calls(connection, query))
}

/// Reads from the journal in a file. One that does not exist, or that nothing was written to, is empty.
pub(crate) fn read_journal<T>(
    path: &Path,
    select: impl Fn(&Connection) -> rusqlite::Result<Vec<T>>,
) -> Result<Vec<T>> {
    if !path.exists() {
        return Ok(Vec::new());
    }
    let select = |connection: &Connection| {
        let exists = connection.prepare("select 1 from sqlite_master where name = 'calls'")?.exists([])?;
        if exists { select(connection) } else { Ok(Vec::new()) }
    };
    match open_for_reading(path).and_then(|connection| select(&connection)) {
        // In a directory that cannot be written, the database has no place for its shared memory.
        Err(error) if is_unwritable(&error) => {
            let connection = open_unchanging(path).map_err(read_error)?;
            select(&connection).map_err(read_error)
        }
        read => read.map_err(read_error),
    }
}

/// The calls of a session in the journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionCalls {
    /// The session.
    pub session: String,
    /// How many there are.
    pub count: u64,
    /// When the one that ended last started, in milliseconds since 1970. `None` if this version of koze cannot read it.
    pub last: Option<u64>,
}

/// Counts the calls of each session of the journal in a file, sorted by session. A journal that does not exist has none.
///
/// # Errors
/// [`Code::Unavailable`] if it cannot be read.
pub fn count_calls(path: &Path) -> Result<Vec<SessionCalls>> {
    read_journal(path, count_by_session)
}

fn count_by_session(connection: &Connection) -> rusqlite::Result<Vec<SessionCalls>> {
    // Next to `max`, SQLite returns the other columns of that row.
    let count = "select session, count(*), max(id), entry from calls group by session order by session";
    let mut statement = connection.prepare(count)?;
    let rows = statement.query_map([], |row| {
        let call = serde_json::from_str::<CallRecord>(&row.get::<_, String>(3)?);
        let last = call.ok().map(|call| call.time);
        Ok(SessionCalls { session: row.get(0)?, count: row.get(1)?, last })
    })?;
    rows.collect()
}

fn open_for_reading(path: &Path) -> rusqlite::Result<Connection> {
    let connection = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    Ok(connection)
}

/// Opens a database that no program can write meanwhile.
pub(crate) fn open_unchanging(path: &Path) -> rusqlite::Result<Connection> {
    let path = percent_encode(path.as_os_str().as_bytes(), NON_ALPHANUMERIC);
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
    Connection::open_with_flags(format!("file:{path}?immutable=1"), flags)
}

fn is_unwritable(error: &rusqlite::Error) -> bool {
    use rusqlite::ErrorCode::{CannotOpen, PermissionDenied, ReadOnly};
    matches!(error.sqlite_error_code(), Some(CannotOpen | PermissionDenied | ReadOnly))
}

pub(crate) fn select_calls(connection: &Connection, query: &CallsQuery) -> rusqlite::Result<Vec<CallRecord>> {
    let newest = query.after.is_none();
    let order = if newest { "desc" } else { "asc" };
    let statement = format!(
        "select id, entry from calls where (?1 is null or session = ?1) and id > ?2 and (?3 is null or id = ?3)
         order by id {order} limit ?4"
    );
    let limit = query.limit.and_then(|limit| i64::try_from(limit).ok()).unwrap_or(-1);
    let after = query.after.unwrap_or(0);
    let row = |row: &Row<'_>| Ok((row.get::<_, u64>(0)?, row.get::<_, String>(1)?));
    let mut statement = connection.prepare(&statement)?;
    let rows = statement.query_map(params![query.session, after, query.id, limit], row)?;
    let mut calls = Vec::new();
    for row in rows {
        let (id, entry) = row?;
        // A later version of koze may have written what this one cannot read.
        if let Ok(call) = serde_json::from_str::<CallRecord>(&entry) {
            calls.push(CallRecord { id, ..call });
        }
    }
    if newest {
        calls.reverse();
    }
    Ok(calls)
}

/// Returns the error without `SQLite`'s own text, which may contain the path of the database.
fn read_error(error: rusqlite::Error) -> Error {
    let cause = error.sqlite_error().map_or_else(|| "unexpected content".to_owned(), ToString::to_string);
    let message = format!(
        "the journal of tool calls cannot be read: {cause}. If it is damaged, delete the files `journal.sqlite*` in the state directory"
    );
    Error::new(Code::Unavailable, message).with_source(error)
}
