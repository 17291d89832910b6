//! What hosts of scripts and browsers do.

use std::future::Future;
use std::time::Duration;

use crate::error::{Code, Error, Result};
use crate::id::SessionId;
use crate::maybe_send::{MaybeSend, MaybeSync};
use crate::script::{
    self, Calls, Check, Egress, Exchange, Exchanged, Failure, NoBrowser, Query, Ran, Secrets, Start, Wire,
};

/// Runs the scripts of agents, with their databases, requests and browsers. By default, a host has none of these.
pub trait ScriptProvider: MaybeSend + MaybeSync + 'static {
    /// Runs a script of an agent. `calls` answers its calls until it ends. A script that fails is not an error of this
    /// method.
    ///
    /// # Errors
    /// [`Code::Unsupported`] if the provider does not run scripts, [`Code::Unavailable`] if it cannot.
    fn run_script(
        &self,
        agent: &SessionId,
        start: Start,
        calls: &impl Calls,
    ) -> impl Future<Output = Result<Ran>> + MaybeSend {
        let _ = (agent, start, calls);
        async { Err(script::unsupported_error()) }
    }

    /// Returns the secrets of an agent's scripts, which only users can set. By default, there are none.
    ///
    /// # Errors
    /// [`Code::Unavailable`] if they cannot be read.
    fn script_secrets(&self, agent: &SessionId) -> Result<Secrets> {
        let _ = agent;
        Ok(Secrets::default())
    }

    /// Answers a query of an agent's database, which only its scripts use.
    ///
    /// # Errors
    /// [`Code::Unsupported`] if the provider has no databases, and what is wrong with the statement.
    fn script_query(
        &self,
        agent: &SessionId,
        query: Query,
    ) -> impl Future<Output = Result<serde_json::Value>> + MaybeSend {
        let _ = (agent, query);
        let message = "this provider has no databases for scripts: use koze on a Linux machine, or keep data in the state";
        async move { Err(Error::new(Code::Unsupported, message)) }
    }

    /// Sends one request of an agent's `fetch`, and returns the response. Redirects are not followed. The provider checks the
    /// policy and the address that it connects to. The request ends when the future is dropped.
    ///
    /// # Errors
    /// [`Code::Unsupported`] if the provider has no network for scripts, [`Code::PermissionDenied`] if the host may not be
    /// reached, [`Code::Unavailable`] if it cannot, [`Code::Timeout`], and [`Code::TooLarge`] if the body is too long.
    fn script_exchange(
        &self,
        agent: &SessionId,
        egress: &Egress,
        exchange: Exchange,
    ) -> impl Future<Output = Result<Exchanged>> + MaybeSend {
        let _ = (agent, egress, exchange);
        let message = "this provider has no network for scripts: use koze on a Linux machine";
        async move { Err(Error::new(Code::Unsupported, message)) }
    }

    /// Records that a request of an agent's `fetch` to a host was refused by a rule before it was sent. By default, nothing is recorded.
    fn script_refused(
        &self,
        agent: &SessionId,
        host: &str,
        port: u16,
        rule: &str,
    ) -> impl Future<Output = ()> + MaybeSend {
        let _ = (agent, host, port, rule);
        async {}
    }

    /// Connects to the browser of an agent. Starts it if it does not run, with the hosts that it may reach. It can also open the
    /// previews of `session`, if their hosts are below `localhost`, until another session connects. A browser has one
    /// connection at a time; others wait, and all of this takes at most `time`. The connection ends when it is dropped, and
    /// the browser stays until it was idle for a while.
    ///
    /// # Errors
    /// [`Code::Unsupported`] if the provider has no browsers, [`Code::Unavailable`] if none can be started, and
    /// [`Code::Timeout`].
    fn open_browser(
        &self,
        session: &SessionId,
        agent: &SessionId,
        egress: &Egress,
        time: Duration,
    ) -> impl Future<Output = Result<impl Wire>> + MaybeSend {
        let _ = (session, agent, egress, time);
        async { Err::<NoBrowser, _>(script::browser::unsupported_error()) }
    }

    /// Ends the browser of an agent, with its cookies and its page. Also succeeds if the agent has no browser.
    ///
    /// # Errors
    /// As [`open_browser`](Self::open_browser).
    fn close_browser(&self, agent: &SessionId) -> impl Future<Output = Result<()>> + MaybeSend {
        let _ = agent;
        async { Err(script::browser::unsupported_error()) }
    }

    /// Compiles the source of a script or library without running it. Returns the first error in it, if there is one.
    ///
    /// # Errors
    /// As [`run_script`](Self::run_script).
    fn check_script(
        &self,
        agent: &SessionId,
        check: Check,
    ) -> impl Future<Output = Result<std::result::Result<(), Failure>>> + MaybeSend {
        let _ = (agent, check);
        async { Err(script::unsupported_error()) }
    }
}
