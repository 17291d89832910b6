//! The databases of agents: one `SQLite` file for each, apart from koze's own tables. Each is open in a process of its own,
//! because a function of `SQLite` cannot be interrupted, and its memory is limited for a whole process only.
//!
//! | module | job |
//! |---|---|
//! | `worker` | a process, as seen by the host |
//! | `serve` | the process itself |
//! | `connection` | the open database, and its limits |
//! | `authorize` | decides what a statement may do |
//! | `run` | runs one statement |
//! | `schema` | lists the tables |
//! | `values` | values as JSON |

mod authorize;
mod connection;
mod run;
mod schema;
mod serve;
mod values;
mod worker;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use koze_script::protocol::Json;
use serde_json::Value;
use tokio::sync::Semaphore;

use crate::engine;
use crate::errors::gone_error;
use crate::host::layout;
use crate::weakness::{Weakness, Weaknesses};
use koze_core::error::{Code, Error, Result};
use koze_core::script::Query;

use self::connection::{Database, unusable_error};
pub(in super::super) use self::serve::serve_queries;
use self::worker::Worker;

/// How many databases stay open.
const OPEN: usize = 8;
/// How many statements of all agents run at once. Others wait; the time of a statement begins when it starts.
const RUNNING: usize = 16;
/// How much the statements of an agent that wait or run may hold, in KiB: as much as the calls of all its scripts can.
const HELD_KIB: usize = 128 << 10;
/// What a statement holds at least, in KiB.
const LEAST_KIB: usize = 16;
/// The largest database in bytes.
const MAX_SIZE: u64 = 100_000_000;
/// The time that a statement may take.
const TIME: Duration = Duration::from_secs(5);

/// The databases of the agents of a state directory.
#[derive(Debug)]
pub(in super::super) struct Databases {
    directory: PathBuf,
    /// Whether statements are limited.
    limited: bool,
    running: Semaphore,
    agents: Mutex<BTreeMap<String, (Instant, Arc<Agent>)>>,
}

/// The database of an agent. Its statements run one after another.
#[derive(Debug)]
struct Agent {
    /// The file name.
    file: String,
    /// The KiB that further statements may hold.
    room: Semaphore,
    /// The process in which it is open.
    worker: Arc<tokio::sync::Mutex<Option<Worker>>>,
}

impl Databases {
    pub(in super::super) fn new(state: &Path, weak: &Weaknesses) -> Self {
        Databases {
            directory: state.join("scripts").join("databases"),
            limited: !weak.has(&Weakness::Statements),
            running: Semaphore::new(RUNNING),
            agents: Mutex::default(),
        }
    }

    /// Answers a query of an agent.
    pub(in super::super) async fn answer(self: &Arc<Self>, agent: String, query: Query) -> Result<Value> {
        if !self.limited {
            return self.answer_here(&agent, query).await;
        }
        let agent = self.agent(&agent);
        let _held = agent.room.try_acquire_many(held_kib(&query)).map_err(|_| full_error())?;
        // Statements wait here, without a thread, until the caller is gone. One that has started ends by itself.
        let mut worker = Arc::clone(&agent.worker).lock_owned().await;
        let (databases, file) = (Arc::clone(self), agent.file.clone());
        let answer = engine::run_to_completion(async move {
            let _running = databases.running.acquire().await.map_err(|_| gone_error())?;
            if worker.as_ref().is_none_or(Worker::has_ended) {
                *worker = Some(databases.start(file).await?);
            }
            let Some(process) = worker.as_mut() else { return Err(gone_error()) };
            let (answer, is_reusable) = process.answer(query).await;
            if !is_reusable {
                *worker = None;
            }
            answer
        });
        decode_answer(&answer.await?)
    }

    /// Returns the database of an agent. Closes the one that was unused for longest if there are too many.
    fn agent(&self, agent: &str) -> Arc<Agent> {
        let mut agents = self.agents.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((used, known)) = agents.get_mut(agent) {
            *used = Instant::now();
            return Arc::clone(known);
        }
        if agents.len() >= OPEN {
            let unused = agents.iter().filter(|(_, (_, agent))| Arc::strong_count(agent) == 1);
            let oldest = unused.min_by_key(|(_, (used, _))| *used).map(|(agent, _)| agent.clone());
            oldest.and_then(|oldest| agents.remove(&oldest));
        }
        let file = layout::sandbox_directory(Path::new(""), agent).with_extension("db");
        let new = Arc::new(Agent {
            file: file.to_string_lossy().into_owned(),
            room: Semaphore::new(HELD_KIB),
            worker: Arc::default(),
        });
        agents.insert(agent.to_owned(), (Instant::now(), Arc::clone(&new)));
        new
    }

    /// Starts the process of a database.
    async fn start(&self, file: String) -> Result<Worker> {
        let directory = self.directory.clone();
        let directory = engine::run_blocking(move || {
            std::fs::create_dir_all(&directory).map_err(not_created)?;
            Ok(directory)
        });
        Worker::start(&directory.await?, &file).await
    }

    /// Answers a query in this program, without limits: for the control of a proof.
    async fn answer_here(&self, agent: &str, query: Query) -> Result<Value> {
        let path = layout::sandbox_directory(&self.directory, agent).with_extension("db");
        let answer = engine::run_blocking(move || {
            path.parent().map_or(Ok(()), std::fs::create_dir_all).map_err(not_created)?;
            Database::open(&path, false).map_err(unusable_error)?.answer(&query)
        });
        decode_answer(&answer.await?)
    }
}

/// Returns how much a query holds in KiB.
fn held_kib(query: &Query) -> u32 {
    let size = |value: &Value| match value {
        Value::String(text) => text.len(),
        Value::Object(fields) => fields.values().filter_map(Value::as_str).map(str::len).sum(),
        _ => 0,
    };
    let bytes = match query {
        Query::Sql { sql, params } => sql.len() + params.iter().map(size).sum::<usize>(),
        Query::Schema => 0,
    };
    u32::try_from(LEAST_KIB + (bytes >> 10)).unwrap_or(u32::MAX)
}

fn full_error() -> Error {
    let text = format!(
        "statements of this agent that have not run yet hold more than {} MiB: wait for some of them first",
        HELD_KIB >> 10
    );
    Error::new(Code::TooLarge, text)
}

fn decode_answer(answer: &Json) -> Result<Value> {
    answer.value().map_err(|error| {
        Error::new(Code::Internal, "the answer of the database cannot be read").with_source(error)
    })
}

fn not_created(error: std::io::Error) -> Error {
    Error::new(Code::Unavailable, format!("the database cannot be created: {}", error.kind()))
        .with_source(error)
}
