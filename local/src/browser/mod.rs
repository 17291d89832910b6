//! The browsers of agents: Chromium, each in its own sandbox, which the first call starts.
//!
//! The sandbox has no files on disk, and no network access except koze's proxy. So the rules for the hosts of scripts apply to
//! everything in a page: redirects, frames, scripts, sockets. koze controls the browser over two pipes.
//!
//! | module | job |
//! |---|---|
//! | `program` | finds Chromium, and builds its command line |
//! | `pipes` | one running browser: messages over its pipes |
//! | `connection` | a connection to a browser, which has one at a time |

mod connection;
mod pipes;
mod program;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};
use tokio::time::timeout;

use self::connection::Connection;
use self::pipes::Pipes;
use self::program::{Chromium, has_certutil};
use crate::network::preview::OwnPreviews;
use crate::sandbox::inner::{BrowserRole, Inner};
use crate::{Shared, engine};
use koze_core::SandboxName;
use koze_core::error::{Code, Error, Result};
use koze_core::id::SessionId;
use koze_core::provider::{Profile, Settings, Size};
use koze_core::script::Egress;
use koze_egress::{Internet, authorities};

/// The memory of a browser, including its files.
const SIZE: Size = Size { memory_mib: 2048, disk_mb: 1000 };
/// The idle time before a browser ends, by default.
const IDLE: Duration = Duration::from_mins(5);

/// The next step on a machine whose authorities Chromium does not trust.
const NEEDS_CERTUTIL: &str = "this machine trusts further authorities, which only `certutil` makes known to Chromium: ask the user to run \
     `apt-get install libnss3-tools` on Debian, or `dnf install nss-tools` on Fedora, and close the browser (`browser_close`)";

/// Returns the next step if Chromium cannot trust the authorities of this machine.
pub(super) fn trust_hint() -> Option<&'static str> {
    (!has_certutil() && !authorities::added_authorities(&Internet::default()).is_empty())
        .then_some(NEEDS_CERTUTIL)
}

/// Checks whether this machine has Chromium.
pub(super) fn check_browser() -> Result<()> {
    Chromium::find().map(drop)
}

/// The browsers of a state directory, by the keys of their agents.
#[derive(Debug)]
pub(super) struct Browsers {
    all: Mutex<HashMap<String, Arc<Browser>>>,
    idle: Mutex<Duration>,
}

impl Default for Browsers {
    fn default() -> Self {
        Browsers { all: Mutex::default(), idle: Mutex::new(IDLE) }
    }
}

/// The exclusive use of a browser by a call. `None` if the browser does not run.
type Turn = OwnedMutexGuard<Option<Pipes>>;

/// The browser of an agent.
#[derive(Debug)]
struct Browser {
    sandbox: Arc<Inner>,
    egress: Egress,
    refusals: Arc<koze_egress::Refusals>,
    previews: Arc<OwnPreviews>,
    internet: Arc<Internet>,
    turn: Arc<AsyncMutex<Option<Pipes>>>,
}

/// Starts a browser in its sandbox.
async fn start_browser(mut turn: Turn, sandbox: Arc<Inner>, internet: Arc<Internet>) -> Result<Turn> {
    *turn = None;
    // Checked first, so that a failure creates no sandbox.
    let chromium = Chromium::find()?;
    let authorities = engine::run_blocking(move || Ok(authorities::added_authorities(&internet))).await?;
    let can_trust = has_certutil();
    let command = chromium.command(if can_trust { &authorities } else { &[] });
    sandbox.sleep().await;
    let running = sandbox.wake().await?;
    let environment = sandbox.environment(&running, &[]);
    let hint = (!can_trust && !authorities.is_empty()).then_some(NEEDS_CERTUTIL);
    *turn = Some(Pipes::start(running, command, environment, hint).await?);
    Ok(turn)
}

impl Browsers {
    /// Sets the idle time of browsers that are started from now on.
    pub(super) fn set_idle(&self, idle: Duration) {
        *self.idle.lock().unwrap_or_else(PoisonError::into_inner) = idle;
    }

    /// Returns their sandboxes.
    pub(super) fn sandboxes(&self) -> Vec<Arc<Inner>> {
        self.all().values().map(|browser| Arc::clone(&browser.sandbox)).collect()
    }

    /// Connects to the browser of an agent, and starts it if it does not run. It can open the previews of the session.
    pub(super) async fn open(
        &self,
        provider: &Arc<Shared>,
        session: Option<SessionId>,
        agent: &SessionId,
        egress: &Egress,
        time: Duration,
    ) -> Result<Connection> {
        let (browser, former) = self.of(provider, agent, egress)?;
        let opening = async move {
            if let Some(former) = former {
                // The hosts that it may reach have changed.
                former.end().await;
            }
            browser.connect(session).await
        };
        let late = |_| {
            let text = "the browser was busy with other calls for too long, or did not start in time: try again later";
            Error::new(Code::Timeout, text)
        };
        engine::run_while_waited(async move {
            timeout(time, opening).await.unwrap_or_else(|error| Err(late(error)))
        })
        .await
    }

    /// Ends the browser of an agent, if it runs.
    pub(super) async fn close(&self, agent: &SessionId) -> Result<()> {
        let Some(browser) = self.all().remove(&agent.key()) else { return Ok(()) };
        // A call that is in progress fails.
        engine::run_to_completion(async move {
            browser.end().await;
            Ok(())
        })
        .await
    }

    /// Returns the browser of an agent with these hosts, and a former one with others.
    fn of(
        &self,
        provider: &Arc<Shared>,
        agent: &SessionId,
        egress: &Egress,
    ) -> Result<(Arc<Browser>, Option<Arc<Browser>>)> {
        let idle = *self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        let mut all = self.all();
        let key = agent.key();
        if let Some(known) = all.get(&key).filter(|known| known.egress == *egress) {
            return Ok((Arc::clone(known), None));
        }
        let new = Arc::new(Browser::new(provider, agent, egress, idle)?);
        let former = all.insert(key, Arc::clone(&new));
        Ok((new, former))
    }

    fn all(&self) -> MutexGuard<'_, HashMap<String, Arc<Browser>>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Browser {
    fn new(provider: &Arc<Shared>, agent: &SessionId, egress: &Egress, idle: Duration) -> Result<Self> {
        let profile = Profile::new("browser", "chromium", SIZE);
        let settings = Settings { profile, sleep_after: idle, size: None };
        let (refusals, previews) = (Arc::default(), Arc::new(OwnPreviews::new(provider)));
        let role = BrowserRole {
            agent: agent.clone(),
            egress: egress.clone(),
            refusals: Arc::clone(&refusals),
            previews: Arc::clone(&previews),
        };
        let sandbox = Inner::browser(&SandboxName::new("browser")?, settings, role, provider);
        Ok(Browser {
            sandbox: Arc::new(sandbox),
            egress: egress.clone(),
            refusals,
            previews,
            internet: Arc::clone(&provider.internet),
            turn: Arc::default(),
        })
    }

    /// Waits for its turn, and starts the browser if it does not run.
    async fn connect(&self, session: Option<SessionId>) -> Result<Connection> {
        let mut turn = Arc::clone(&self.turn).lock_owned().await;
        let using = self.sandbox.using();
        if turn.as_ref().is_none_or(Pipes::has_ended) {
            // Runs to completion, even if the caller stops waiting: a browser that is only partly started would block the next one.
            turn = engine::run_to_completion(start_browser(
                turn,
                Arc::clone(&self.sandbox),
                Arc::clone(&self.internet),
            ))
            .await?;
        }
        self.refusals.clear();
        self.previews.set_session(session);
        let pipes = turn.as_ref().ok_or_else(super::errors::gone_error)?;
        Ok(pipes.connect(&self.refusals, using).held(turn))
    }

    async fn end(&self) {
        self.sandbox.sleep().await;
    }
}
