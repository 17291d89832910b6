//! Scripts of agents, in separate processes: `QuickJS` is not a security boundary, and its built-in functions cannot be
//! interrupted.
//!
//! A process sees no files, has no network, and can make only the few system calls that an engine needs: everything else
//! kills it. It holds one descriptor, the socket to this program. It is killed at the time limit of its script. A process
//! only runs scripts of one agent, so that no data of one agent can reach another.
//!
//! | module | job |
//! |---|---|
//! | `pool` | prepared and idle processes |
//! | `worker` | one process: starts it, and runs a script in it |
//! | `line` | the socket to a process of scripts or of a database |
//! | `serve` | the process itself |
//! | `database` | the databases of agents |
//! | `secrets` | the secrets of scripts |

mod database;
mod line;
mod pool;
mod serve;
mod worker;

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use koze_script::protocol::ToScript;
use tokio::sync::{Semaphore, mpsc};

use crate::engine::engine;
use crate::errors::gone_error;
use crate::weakness::Weaknesses;
use koze_core::error::{Code, Error, Result};
use koze_core::script::{Calls, Ran};

pub(super) use self::database::{Databases, serve_queries};
use self::pool::Pool;
pub(super) use self::serve::serve_scripts;
use self::worker::{Bounds, Talk};

/// The maximum number of concurrent scripts.
const RUNNING: usize = 16;
/// The maximum number of concurrent scripts of one agent. Others wait; the time of a script begins when it starts.
const OF_ONE_AGENT: usize = 8;

/// The scripts of a state directory.
#[derive(Debug)]
pub(super) struct Scripts {
    pool: Arc<Pool>,
    bounds: Bounds,
    running: Arc<Semaphore>,
    agents: Mutex<HashMap<String, Weak<Semaphore>>>,
}

impl Scripts {
    pub(super) fn new(state: &Path, weak: &Weaknesses) -> Self {
        Scripts {
            pool: Arc::new(Pool::new(state.join("scripts"))),
            bounds: Bounds::new(weak),
            running: Arc::new(Semaphore::new(RUNNING)),
            agents: Mutex::default(),
        }
    }

    /// Sends a script to a process of an agent, answers its calls, and returns what it did.
    pub(super) async fn send(&self, agent: &str, message: ToScript, calls: &impl Calls) -> Result<Ran> {
        let of_agent = self.agent(agent);
        let _turn = of_agent.acquire().await.map_err(|_| gone_error())?;
        let running = Arc::clone(&self.running).acquire_owned().await.map_err(|_| gone_error())?;
        let (asking, mut asked) = mpsc::unbounded_channel();
        let bounds = self.bounds;
        let (answering, answers) = mpsc::channel(bounds.ready);
        let (pool, agent) = (Arc::clone(&self.pool), agent.to_owned());
        let mut task = engine()?.spawn(async move {
            // Held until the process is free again, even if the caller stops waiting.
            let _running = running;
            pool.run(&agent, &message, Talk { bounds, asking, answers }).await
        });
        let mut pending = FuturesUnordered::new();
        loop {
            tokio::select! {
                ran = &mut task => {
                    return ran.map_err(|error| Error::new(Code::Internal, error.to_string()))?;
                }
                Some((id, call)) = asked.recv() => pending.push(async move { (id, calls.answer(&call).await) }),
                Some(()) = async {
                    let room = answering.reserve().await.ok()?;
                    room.send(pending.next().await?);
                    Some(())
                } => {}
            }
        }
    }

    /// Returns the semaphore of an agent's scripts.
    fn agent(&self, agent: &str) -> Arc<Semaphore> {
        let mut agents = self.agents.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = agents.get(agent).and_then(Weak::upgrade) {
            return known;
        }
        agents.retain(|_, known| known.strong_count() > 0);
        let new = Arc::new(Semaphore::new(OF_ONE_AGENT));
        agents.insert(agent.to_owned(), Arc::downgrade(&new));
        new
    }
}
