//! The process of a database, as seen by the host.

use std::io;
use std::path::Path;
use std::time::Duration;

use koze_script::protocol::Json;

use super::super::line::Line;
use super::connection::{late_error, memory_error};
use super::serve::{Ask, DIRECTORY};
use super::{MAX_SIZE, TIME};
use crate::filter;
use crate::launch::{Bind, BindKind, Spec, Task};
use koze_core::error::{Code, Error, Result};
use koze_core::script::Query;

/// The time after its limit at which a statement is killed, if it has not ended by itself: one function of `SQLite` cannot be
/// interrupted.
const GRACE: Duration = Duration::from_millis(250);
/// The timeout for opening a database, which may have to be recovered.
const OPEN: Duration = Duration::from_secs(20);
/// The memory of an idle process in bytes above which it is replaced.
const IDLE_MEMORY: u64 = 48 << 20;
/// The number of statements after which a process is replaced.
const STATEMENTS: u32 = 100_000;

/// The process of one database. It is killed when this is dropped.
#[derive(Debug)]
pub(super) struct Worker {
    line: Line,
    statements: u32,
}

impl Worker {
    /// Starts a process, and opens a database of a directory in it. Call this within the engine's runtime.
    pub(super) async fn start(directory: &Path, file: &str) -> Result<Self> {
        let mut worker = Worker { line: Line::start(worker_spec(directory)?).await?, statements: 0 };
        let opened = worker.ask(&Ask::Open(file.to_owned()), OPEN).await.map_err(|broken| match broken {
            Broken::Late => Error::new(Code::Timeout, "the database was not opened in time: try again"),
            Broken::Gone | Broken::TooLong => {
                Error::new(Code::Unavailable, "the process of the database ended while it opened it")
            }
        })?;
        opened.map(|_| worker)
    }

    /// Answers a query. Returns the answer, and whether the process can answer the next one.
    pub(super) async fn answer(&mut self, query: Query) -> (Result<Json>, bool) {
        self.statements += 1;
        match self.ask(&query.into(), TIME + GRACE).await {
            Ok(answer) => (answer, self.statements < STATEMENTS && self.is_small()),
            Err(Broken::Late) => (Err(late_error()), false),
            // A limit of the process, not of its database: an allocation that failed.
            Err(Broken::Gone) => (Err(memory_error()), false),
            Err(Broken::TooLong) => {
                (Err(Error::new(Code::TooLarge, "the statement and its parameters are too long")), true)
            }
        }
    }

    pub(super) fn has_ended(&self) -> bool {
        self.line.has_ended()
    }

    fn is_small(&self) -> bool {
        self.line.memory().is_none_or(|bytes| bytes < IDLE_MEMORY)
    }

    async fn ask(&mut self, ask: &Ask, time: Duration) -> std::result::Result<Result<Json>, Broken> {
        self.line.queue(ask).map_err(|_| Broken::TooLong)?;
        let answered = async {
            loop {
                if let Some(answer) = self.line.take()? {
                    return Ok(answer);
                }
                self.line.turn().await?;
            }
        };
        let answered: io::Result<_> = tokio::time::timeout(time, answered).await.map_err(|_| Broken::Late)?;
        answered.map_err(|_| Broken::Gone)
    }
}

/// Why there is no answer.
enum Broken {
    /// The time is over.
    Late,
    /// The process is gone.
    Gone,
    /// The message cannot be sent.
    TooLong,
}

/// Returns the sandbox of a process: it sees the directory, and nothing else of the host.
fn worker_spec(directory: &Path) -> Result<Spec> {
    use std::os::unix::ffi::OsStrExt;
    let bind = |source: &[u8], target: &str, kind| Bind {
        source: source.to_owned(),
        target: target.to_owned(),
        kind,
    };
    Ok(Spec {
        binds: vec![
            bind(b"/dev/null", "dev/null", BindKind::Device),
            bind(b"/dev/urandom", "dev/urandom", BindKind::Device),
            bind(directory.as_os_str().as_bytes(), DIRECTORY, BindKind::Writable),
        ],
        shared_mib: 1,
        // The log of writes can be longer than the database until it is written to it.
        file_size: 4 * MAX_SIZE,
        filters: filter::engine::database_filter()?,
        // It has no other owner, because the files belong to this user. The process has no capabilities.
        ..Spec::bare("database", Task::Database)
    })
}
