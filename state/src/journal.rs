//! The journal of tool calls on this machine: an `SQLite` database, which any number of programs use at the same time.
//!
//! A call only puts its record into a queue. A thread masks secrets and writes the records. If the queue is full or the database
//! cannot be written, records are dropped, and the next record says how many.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{
    Receiver, RecvTimeoutError, Sender, SyncSender, TryRecvError, TrySendError, channel, sync_channel,
};
use std::time::{Duration, Instant};

use koze_core::error::{Code, Error, Result};
use koze_core::journal::{CallRecord, UnmaskedCall};
use koze_core::script::Secrets as Values;
use percent_encoding::{NON_ALPHANUMERIC, percent_encode};
use rusqlite::{Connection, OpenFlags, Row, Transaction, TransactionBehavior, params};

use crate::pictures::{self, KeptPicture};
use crate::secrets::Secrets;

/// How many calls the journal keeps.
const MAX_CALLS: u64 = 10_000;
/// How many bytes of the database are in use at most, without pictures. With what is written between two checks, and the write-ahead
/// log, the files have at most 32 MiB. Pictures have a bound of their own.
const MAX_USED: u64 = 24 << 20;
/// How many calls are written between two checks of the bounds.
const CHECKED_EVERY: u64 = 64;
/// How many of the oldest calls are deleted at once if the database is too large.
const DELETED_AT_ONCE: u64 = 500;
/// How many records wait to be written.
const QUEUE: usize = 1024;
/// How many bytes of pictures, in base64, wait to be written. Beyond that, calls are recorded without theirs.
const MAX_QUEUED_PICTURES: usize = 16 << 20;
/// The shortest time between two transactions. Under load, each writes several records, which costs less than one for each.
const GATHER_TIME: Duration = Duration::from_millis(20);
/// How long the end of this program waits for the records in the queue.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(5);
/// How long a write waits for another program's.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

/// The journal of tool calls, for writing.
#[derive(Debug)]
pub struct CallJournal {
    queue: SyncSender<Message>,
    lost: Arc<AtomicU64>,
    /// The size of the pictures in the queue, in bytes of their base64.
    queued_pictures: Arc<AtomicUsize>,
}

#[derive(Debug)]
enum Message {
    Record(Box<UnmaskedCall>),
    /// Asks for an answer once everything before it is written.
    Flush(Sender<()>),
}

impl CallJournal {
    /// Opens the journal in a file, which is created by the first call. `secrets` are masked.
    ///
    /// # Errors
    /// [`Code::Unavailable`] if no thread can be created.
    pub fn open(path: PathBuf, secrets: Option<Arc<Secrets>>) -> Result<Self> {
        let (queue, messages) = sync_channel(QUEUE);
        let lost = Arc::new(AtomicU64::new(0));
        let queued_pictures = Arc::new(AtomicUsize::new(0));
        let writer = Writer {
            path,
            secrets,
            lost: Arc::clone(&lost),
            queued_pictures: Arc::clone(&queued_pictures),
            connection: None,
            unchecked: 0,
        };
        std::thread::Builder::new()
            .name("koze-journal".into())
            .spawn(move || writer.run(&messages))
            .map_err(|error| {
                let message = format!("the journal of tool calls cannot be opened: {}", error.kind());
                Error::new(Code::Unavailable, message).with_source(error)
            })?;
        Ok(CallJournal { queue, lost, queued_pictures })
    }

    /// Records a call. Never waits.
    pub fn record(&self, mut call: UnmaskedCall) {
        let size = call.pictures_size();
        let queued = self.queued_pictures.fetch_add(size, Ordering::Relaxed);
        if size > 0 && queued + size > MAX_QUEUED_PICTURES {
            call.take_pictures();
            self.queued_pictures.fetch_sub(size, Ordering::Relaxed);
        }
        if let Err(unsent) = self.queue.try_send(Message::Record(Box::new(call))) {
            self.lost.fetch_add(1, Ordering::Relaxed);
            if let TrySendError::Full(Message::Record(call))
            | TrySendError::Disconnected(Message::Record(call)) = unsent
            {
                self.queued_pictures.fetch_sub(call.pictures_size(), Ordering::Relaxed);
            }
        }
    }

    /// Waits until all recorded calls are written, or it takes too long. Call it on a thread that may block.
    pub fn flush(&self) {
        let (done, written) = channel();
        if self.queue.try_send(Message::Flush(done)).is_ok() {
            let _: std::result::Result<(), RecvTimeoutError> = written.recv_timeout(FLUSH_TIMEOUT);
        }
    }
}

/// The thread that writes.
struct Writer {
    path: PathBuf,
    secrets: Option<Arc<Secrets>>,
    lost: Arc<AtomicU64>,
    queued_pictures: Arc<AtomicUsize>,
    /// `None` before the first call, and after a failure: the next batch opens it again.
    connection: Option<Connection>,
    /// How many calls were written since the bounds were checked.
    unchecked: u64,
}

impl Writer {
    fn run(mut self, messages: &Receiver<Message>) {
        let mut written: Option<Instant> = None;
        while let Ok(first) = messages.recv() {
            if let Some(rest) = written.and_then(|at| GATHER_TIME.checked_sub(at.elapsed())) {
                std::thread::sleep(rest);
            }
            let mut calls = Vec::new();
            let mut next = Ok(first);
            let mut waiting = Vec::new();
            loop {
                match next {
                    Ok(Message::Record(call)) => calls.push(*call),
                    Ok(Message::Flush(done)) => waiting.push(done),
                    Err(TryRecvError::Empty | TryRecvError::Disconnected) => break,
                }
                if calls.len() == QUEUE {
                    break;
                }
                next = messages.try_recv();
            }
            self.write(calls);
            written = Some(Instant::now());
            for done in waiting {
                let _ = done.send(());
            }
        }
    }

    /// Writes calls. If that fails, they are lost.
    fn write(&mut self, calls: Vec<UnmaskedCall>) {
        if calls.is_empty() {
            return;
        }
        let count = calls.len() as u64;
        let lost = self.lost.swap(0, Ordering::Relaxed);
        let secrets = match &self.secrets {
            Some(secrets) => secrets.values().ok(),
            None => Some(Values::default()),
        };
        let mut records: Vec<Written> =
            calls.into_iter().map(|call| self.prepare(call, secrets.as_ref())).collect();
        records[0].record.lost = lost;
        if self.insert(&records).is_err() {
            self.connection = None;
            self.lost.fetch_add(lost + count, Ordering::Relaxed);
            return;
        }
        self.unchecked += count;
        if self.unchecked >= CHECKED_EVERY
            && let Some(connection) = &self.connection
            // The next check tries again.
            && delete_oldest(connection).is_ok()
        {
            self.unchecked = 0;
        }
    }

    /// Masks a call, and decodes its pictures. A call whose secrets could not be read is recorded without its result, so without its
    /// pictures, too.
    fn prepare(&self, mut call: UnmaskedCall, secrets: Option<&Values>) -> Written {
        let encoded = call.take_pictures();
        let size = encoded.iter().map(|picture| picture.base64.len()).sum();
        self.queued_pictures.fetch_sub(size, Ordering::Relaxed);
        let mut record = call.mask(secrets);
        let mut pictures = Vec::new();
        if secrets.is_some() {
            for picture in encoded.iter().filter_map(pictures::decode) {
                if let Some(described) = record.pictures.get_mut(picture.index) {
                    described.kept = true;
                    pictures.push(picture);
                }
            }
        }
        Written { record, pictures }
    }

    fn insert(&mut self, records: &[Written]) -> rusqlite::Result<()> {
        let connection = match &mut self.connection {
            Some(connection) => connection,
            none => {
                // A program that starts often must not exceed the bounds either.
                self.unchecked = CHECKED_EVERY;
                none.insert(open_for_writing(&self.path)?)
            }
        };
        let transaction = Transaction::new_unchecked(connection, TransactionBehavior::Immediate)?;
        {
            let mut insert =
                transaction.prepare_cached("insert into calls (session, entry) values (?, ?)")?;
            for Written { record, pictures } in records {
                let entry = serde_json::to_string(record)
                    .map_err(|error| rusqlite::Error::ToSqlConversionFailure(Box::new(error)))?;
                insert.execute(params![record.session, entry])?;
                pictures::insert(&transaction, transaction.last_insert_rowid(), pictures)?;
            }
        }
        transaction.commit()
    }
}

/// What is written of a call.
struct Written {
    record: CallRecord,
    pictures: Vec<KeptPicture>,
}

fn open_for_writing(path: &Path) -> rusqlite::Result<Connection> {
    // Only the owner may read it. If this fails, the database reports why.
    let _: io::Result<_> = OpenOptions::new().append(true).create(true).mode(0o600).open(path);
    let connection = Connection::open(path)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.pragma_update(None, "journal_mode", "wal")?;
    connection.pragma_update(None, "synchronous", "normal")?;
    connection.pragma_update(None, "journal_size_limit", 4 << 20)?;
    connection.execute_batch(
        "create table if not exists calls (
            id integer primary key,
            session text not null,
            entry text not null
         ) strict;",
    )?;
    pictures::create_table(&connection)?;
    Ok(connection)
}

/// Deletes the oldest calls that exceed the bounds. The newest call is never deleted, so IDs are not used again.
fn delete_oldest(connection: &Connection) -> rusqlite::Result<()> {
    let delete = "delete from calls where id <= (select max(id) from calls) - ?";
    connection.execute(delete, [MAX_CALLS])?;
    pictures::delete_orphans(connection)?;
    while used_bytes(connection)?.saturating_sub(pictures::used_bytes(connection)?) > MAX_USED {
        let delete = "delete from calls where id < (select min(id) from calls) + ?
             and id < (select max(id) from calls)";
        if connection.execute(delete, [DELETED_AT_ONCE])? == 0 {
            return Ok(());
        }
        pictures::delete_orphans(connection)?;
    }
    Ok(())
}

/// Returns how many bytes of the database hold data.
fn used_bytes(connection: &Connection) -> rusqlite::Result<u64> {
    let pragma = |name: &str| connection.pragma_query_value(None, name, |row| row.get::<_, u64>(0));
    let pages = pragma("page_count")?.saturating_sub(pragma("freelist_count")?);
    Ok(pages * pragma("page_size")?)
}

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
fn open_unchanging(path: &Path) -> rusqlite::Result<Connection> {
    let path = percent_encode(path.as_os_str().as_bytes(), NON_ALPHANUMERIC);
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
    Connection::open_with_flags(format!("file:{path}?immutable=1"), flags)
}

fn is_unwritable(error: &rusqlite::Error) -> bool {
    use rusqlite::ErrorCode::{CannotOpen, PermissionDenied, ReadOnly};
    matches!(error.sqlite_error_code(), Some(CannotOpen | PermissionDenied | ReadOnly))
}

fn select_calls(connection: &Connection, query: &CallsQuery) -> rusqlite::Result<Vec<CallRecord>> {
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

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use serde_json::json;

    use super::*;

    fn record() -> CallRecord {
        let record = json!({
            "time": 1, "session": "s", "tool": "shell", "input_bytes": 2, "outcome": "ok", "duration_ms": 0,
            "result_bytes": 2,
        });
        serde_json::from_value(record).unwrap()
    }

    fn writer(path: &Path) -> Writer {
        let lost = Arc::default();
        let queued_pictures = Arc::default();
        Writer { path: path.to_owned(), secrets: None, lost, queued_pictures, connection: None, unchecked: 0 }
    }

    fn written(records: impl IntoIterator<Item = CallRecord>) -> Vec<Written> {
        records.into_iter().map(|record| Written { record, pictures: Vec::new() }).collect()
    }

    fn all(path: &Path) -> Vec<CallRecord> {
        read_calls(path, &CallsQuery::default()).unwrap()
    }

    #[test]
    fn calls_are_read_in_pages() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal.sqlite");
        assert!(all(&path).is_empty());
        let records = (0..10).map(|number| CallRecord { duration_ms: number, ..record() });
        writer(&path).insert(&written(records)).unwrap();
        let read = |query: CallsQuery| -> Vec<u64> {
            read_calls(&path, &query).unwrap().iter().map(|call| call.duration_ms).collect()
        };
        assert_eq!(read(CallsQuery { limit: Some(2), ..CallsQuery::default() }), [8, 9]);
        assert_eq!(read(CallsQuery { limit: Some(2), after: Some(3), ..CallsQuery::default() }), [3, 4]);
        assert_eq!(read(CallsQuery { after: Some(10), ..CallsQuery::default() }), [0; 0]);
        assert_eq!(read(CallsQuery { id: Some(4), ..CallsQuery::default() }), [3]);
        assert_eq!(read(CallsQuery { session: Some("other".into()), ..CallsQuery::default() }), [0; 0]);
        assert_eq!(read(CallsQuery { session: Some("s".into()), ..CallsQuery::default() }).len(), 10);
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[test]
    fn calls_are_counted_by_session() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal.sqlite");
        assert_eq!(count_calls(&path).unwrap(), []);
        let call = |session: &str, time| CallRecord { session: session.into(), time, ..record() };
        // The newest call is the last one that ended, not the one that started last.
        let records = [call("b", 9), call("a", 2), call("b", 1), call("b", 5)];
        writer(&path).insert(&written(records)).unwrap();
        let count =
            |session: &str, count, last| SessionCalls { session: session.into(), count, last: Some(last) };
        assert_eq!(count_calls(&path).unwrap(), [count("a", 1, 2), count("b", 3, 5)]);
    }

    #[test]
    fn the_number_of_calls_is_bounded() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal.sqlite");
        let mut writer = writer(&path);
        let small = record();
        writer.insert(&written(vec![small; 10_200])).unwrap();
        delete_oldest(writer.connection.as_ref().unwrap()).unwrap();
        let ids: Vec<u64> = all(&path).iter().map(|call| call.id).collect();
        assert_eq!((ids.len(), ids[0], ids[9999]), (10_000, 201, 10_200));
    }

    #[test]
    fn the_size_is_bounded() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal.sqlite");
        let mut writer = writer(&path);
        // As large as records get: 2,000 characters of four bytes.
        let large = CallRecord { input: Some(json!("\u{1F980}".repeat(2000)).into()), ..record() };
        let large = written(vec![large; 64]);
        for _ in 0..80 {
            writer.insert(&large).unwrap();
            delete_oldest(writer.connection.as_ref().unwrap()).unwrap();
        }
        let files = std::fs::read_dir(dir.path()).unwrap();
        let size: u64 = files.map(|file| file.unwrap().metadata().unwrap().len()).sum();
        assert!(size <= 32 << 20, "{size}");
        let calls = all(&path);
        assert_eq!(calls.last().unwrap().id, 80 * 64, "the newest calls stay");
        assert!(calls.len() > 1000, "{}", calls.len());
    }

    #[test]
    fn losses_are_counted() {
        let dir = tempfile::tempdir().unwrap();
        let state = dir.path().join("missing");
        let path = state.join("journal.sqlite");
        let mut writer = writer(&path);
        writer.lost.store(2, Ordering::Relaxed);
        writer.write(vec![record().into(), record().into()]);
        assert_eq!(writer.lost.load(Ordering::Relaxed), 4);
        std::fs::create_dir(&state).unwrap();
        writer.write(vec![record().into(), record().into()]);
        let lost: Vec<u64> = all(&path).iter().map(|call| call.lost).collect();
        assert_eq!(lost, [4, 0]);
        assert_eq!(writer.lost.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_full_queue_loses_calls_and_counts_them() {
        let (queue, _messages) = sync_channel(1);
        let journal = CallJournal { queue, lost: Arc::default(), queued_pictures: Arc::default() };
        for _ in 0..3 {
            journal.record(record().into());
        }
        assert_eq!(journal.lost.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn a_flush_waits_for_what_was_recorded() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("journal.sqlite");
        let journal = CallJournal::open(path.clone(), None).unwrap();
        for _ in 0..300 {
            journal.record(record().into());
        }
        journal.flush();
        assert_eq!(all(&path).len(), 300);
    }

    #[test]
    fn an_unwritable_or_damaged_journal_is_read_or_reported() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a journal?%20.sqlite");
        writer(&path).insert(&written([record()])).unwrap();
        let unchanging = open_unchanging(&path).unwrap();
        assert_eq!(select_calls(&unchanging, &CallsQuery::default()).unwrap().len(), 1);
        std::fs::write(&path, "this is not a database, but it is long enough to be one".repeat(100)).unwrap();
        let error = read_calls(&path, &CallsQuery::default()).unwrap_err();
        assert!(error.message.contains("cannot be read: "), "{error}");
        assert!(!error.message.contains("a journal"), "{error}");
    }
}
