//! The processes of scripts: one is prepared ahead, and those that have run a script wait for the next one of their agent.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use koze_script::protocol::ToScript;

use super::worker::{End, Talk, Worker};
use crate::engine::{self, engine};
use crate::filter;
use crate::host::owner;
use crate::launch::{Spec, Task};
use crate::weakness::Weaknesses;
use koze_core::error::{Code, Error, Result};
use koze_core::script::Ran;

/// The maximum number of idle processes that are kept for further scripts of their agents.
const WAITING: usize = 8;
/// The number of scripts after which a process is replaced.
const SCRIPTS: u32 = 1000;

/// The processes that run no script.
#[derive(Debug)]
pub(super) struct Pool {
    /// Holds the record of the user that the processes have on the host.
    directory: PathBuf,
    idle: Mutex<Idle>,
}

#[derive(Debug, Default)]
struct Idle {
    /// The process that has not run anything.
    fresh: Option<Worker>,
    /// The processes of agents, the most recently used one last.
    used: Vec<(String, Worker)>,
}

impl Pool {
    pub(super) fn new(directory: PathBuf) -> Self {
        Pool { directory, idle: Mutex::default() }
    }

    /// Runs a script in a process of an agent.
    pub(super) async fn run(
        self: &Arc<Self>,
        agent: &str,
        message: &ToScript,
        mut talk: Talk,
    ) -> Result<Ran> {
        let mut worker = match self.take(agent) {
            Some(worker) => worker,
            None => self.launch().await?,
        };
        self.prepare();
        let (ran, end) = worker.run(message, &mut talk).await?;
        if end == End::Reusable && worker.scripts() < SCRIPTS {
            self.put(agent, worker);
        }
        Ok(ran)
    }

    fn take(&self, agent: &str) -> Option<Worker> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some(at) = idle.used.iter().rposition(|(owner, _)| owner == agent) {
            let (_, worker) = idle.used.remove(at);
            if !worker.has_ended() {
                return Some(worker);
            }
        }
        idle.fresh.take().filter(|worker| !worker.has_ended())
    }

    fn put(&self, agent: &str, worker: Worker) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.used.len() >= WAITING {
            idle.used.remove(0);
        }
        idle.used.push((agent.to_owned(), worker));
    }

    /// Starts the next process ahead. If that fails, the script that needs it reports why.
    fn prepare(self: &Arc<Self>) {
        let Ok(engine) = engine() else { return };
        if self.idle.lock().unwrap_or_else(PoisonError::into_inner).fresh.is_some() {
            return;
        }
        let pool = Arc::clone(self);
        engine.spawn(async move {
            if let Ok(worker) = pool.launch().await {
                let mut idle = pool.idle.lock().unwrap_or_else(PoisonError::into_inner);
                idle.fresh.get_or_insert(worker);
            }
        });
    }

    async fn launch(&self) -> Result<Worker> {
        let directory = self.directory.clone();
        let owner = engine::run_blocking(move || {
            let failed = |error: std::io::Error| {
                let text = format!("the process of a script cannot be prepared: {}", error.kind());
                Error::new(Code::Unavailable, text).with_source(error)
            };
            std::fs::create_dir_all(&directory).map_err(failed)?;
            owner::settle_owner(&directory, &Weaknesses::default()).map_err(failed)
        })
        .await?;
        let filters = filter::engine::script_filter()?;
        Worker::start(Spec { filters, owner, ..Spec::bare("script", Task::Script) }).await
    }
}
