//! The journal of tool calls on this machine: an `SQLite` database, which any number of programs use at the same time.
//!
//! A call only puts its record into a queue. A thread masks secrets and writes the records. If the queue is full or the database
//! cannot be written, records are dropped, and the next record says how many.

use std::fs::OpenOptions;
use std::io;
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
use rusqlite::{Connection, Transaction, TransactionBehavior, params};

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
pub(crate) const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

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

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use serde_json::json;

    use super::*;
    use crate::calls::{CallsQuery, SessionCalls, count_calls, open_unchanging, read_calls, select_calls};

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
