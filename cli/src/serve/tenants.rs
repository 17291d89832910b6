//! The tenants of a server, and how each reaches its sessions.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use koze_core::{Code, Error, Result};
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;

use super::previews::Previews;
use super::terminal::Terminals;
use crate::mcp::offers::Offers;
use crate::mcp::supervised::Supervised;
use crate::mcp::tasks::Tasks;
use crate::session::{self, Client, State};

/// The maximum number of clients of the older protocol, of a tenant.
const MAX_CLIENTS: usize = 1024;

/// A tenant.
pub(crate) struct Tenant {
    pub(super) offers: Offers,
    sessions: Sessions,
    /// The clients of the older protocol, by the session of sandboxes that they use. Those of another tenant cannot be reached.
    clients: Mutex<HashMap<String, Arc<LocalSessionManager>>>,
    pub(super) terminals: Terminals,
    previews: Option<Previews>,
    /// The calls that go on after their requests. Those of another tenant cannot be reached.
    tasks: Tasks,
}

/// The sessions of a tenant.
enum Sessions {
    /// One.
    One(Client),
    /// Those in a state directory, of which at most `max` are in use at a time: each has a process of its own.
    All { state: State, max: usize, used: Mutex<HashMap<String, UsedSession>> },
}

/// A session that was used.
struct UsedSession {
    client: Client,
    /// Requests that use it hold a clone.
    usage: Arc<()>,
}

impl UsedSession {
    fn is_in_use(&self) -> bool {
        Arc::strong_count(&self.usage) > 1 || self.client.is_running()
    }
}

impl Tenant {
    /// Creates the tenant of a server for one session.
    pub(crate) fn of_session(client: Client, offers: Offers) -> Self {
        Tenant::new(offers, Sessions::One(client))
    }

    /// Creates a tenant with all sessions in a state directory, of which at most `max` are in use at a time.
    pub(crate) fn of_state(state: State, max: usize, offers: Offers) -> Self {
        Tenant::new(offers, Sessions::All { state, max, used: Mutex::default() })
    }

    /// Returns the tenant of a server that has a host for previews.
    #[must_use]
    pub(crate) fn with_previews(self, previews: Option<Previews>) -> Self {
        Tenant { previews, ..self }
    }

    fn new(offers: Offers, sessions: Sessions) -> Self {
        Tenant {
            offers,
            sessions,
            clients: Mutex::default(),
            terminals: Terminals::new(),
            previews: None,
            tasks: Tasks::default(),
        }
    }

    /// Returns the session of clients that name none.
    pub(super) fn default_session(&self) -> &str {
        match &self.sessions {
            Sessions::One(client) => client.session().session(),
            Sessions::All { .. } => crate::args::SESSION,
        }
    }

    /// Returns the sandboxes of a session, with the tools that a request asks for.
    ///
    /// # Errors
    /// If there is no such session or toolset, or if too many sessions are in use.
    pub(super) fn open(&self, session: &str, toolset: Option<&str>) -> Result<Supervised> {
        let supervised = self.open_session(session)?;
        Ok(supervised
            .with_offers(self.offers.select(toolset)?)
            .with_previews(self.previews.clone())
            .with_tasks(self.tasks.clone()))
    }

    /// Returns the state directory of the sessions, and the only session that is served, if it is one.
    pub(super) fn served_sessions(&self) -> (&State, Option<&str>) {
        match &self.sessions {
            Sessions::One(client) => (client.state(), Some(client.session().session())),
            Sessions::All { state, .. } => (state, None),
        }
    }

    fn open_session(&self, name: &str) -> Result<Supervised> {
        let (state, max, used) = match &self.sessions {
            Sessions::One(client) if client.session().session() == name => {
                return Ok(Supervised::new(client.clone(), self.offers.clone()));
            }
            Sessions::One(_) => {
                let message =
                    "this server serves another session: the URL must have the name given with `--session`";
                return Err(Error::new(Code::NotFound, message));
            }
            Sessions::All { state, max, used } => (state, *max, used),
        };
        let client = Client::new(state.clone(), session::session(name)?);
        let mut used = used.lock().unwrap_or_else(PoisonError::into_inner);
        if used.len() >= max && !used.contains_key(name) {
            used.retain(|_, session| session.is_in_use());
            if used.len() >= max {
                let message = format!(
                    "{max} sessions are in use, which is the maximum: try again when one of them sleeps"
                );
                return Err(Error::new(Code::Unavailable, message));
            }
        }
        let session = UsedSession { client, usage: Arc::default() };
        let UsedSession { client, usage } = used.entry(name.to_owned()).or_insert(session);
        Ok(Supervised::new(client.clone(), self.offers.clone()).with_usage(Arc::clone(usage)))
    }

    /// Returns the clients of the older protocol that use a session, or for a new client an error if there are too many.
    ///
    /// # Errors
    /// [`Code::Unavailable`].
    pub(super) async fn clients(&self, session: &str, is_new: bool) -> Result<Arc<LocalSessionManager>> {
        let all: Vec<_> =
            self.lock_clients().iter().map(|(name, one)| (name.clone(), Arc::clone(one))).collect();
        let mut count = 0;
        let mut empty = Vec::new();
        for (name, clients) in all {
            match clients.sessions.read().await.len() {
                0 => empty.push(name),
                some => count += some,
            }
        }
        if is_new && count >= MAX_CLIENTS {
            return Err(Error::new(Code::Unavailable, "too many clients are connected: try again later"));
        }
        let mut clients = self.lock_clients();
        for name in empty {
            // A request that is being answered holds it.
            if clients.get(&name).is_some_and(|one| Arc::strong_count(one) == 1) {
                clients.remove(&name);
            }
        }
        Ok(Arc::clone(clients.entry(session.to_owned()).or_insert_with(super::mcp::new_clients)))
    }

    fn lock_clients(&self) -> std::sync::MutexGuard<'_, HashMap<String, Arc<LocalSessionManager>>> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
