//! The sandboxes of a session, accessed through its supervisor.

use std::sync::Arc;

use koze_core::tool::{Input, Reply};
use koze_core::{Code, Error, Progress};

use super::server::Offer;
use crate::session::Client;

/// The sandboxes of a session, and the tools that its project currently offers. A clone is the same.
#[derive(Clone)]
pub(crate) struct Supervised {
    client: Client,
    read_offer: Arc<dyn Fn() -> Arc<Offer> + Send + Sync>,
}

impl Supervised {
    /// `read_offer` returns what the project currently offers.
    pub(crate) fn new(client: Client, read_offer: impl Fn() -> Arc<Offer> + Send + Sync + 'static) -> Self {
        Supervised { client, read_offer: Arc::new(read_offer) }
    }

    /// Returns the connection to the supervisor.
    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// Returns what the project currently offers.
    pub(crate) fn current_offer(&self) -> Arc<Offer> {
        (self.read_offer)()
    }

    /// Checks that a request names the session that is served.
    pub(crate) fn check_session(&self, session: &str) -> Result<(), Error> {
        if session == self.client.session().session() {
            return Ok(());
        }
        let message = "this server serves another session: the URL must have the name given with `--session`";
        Err(Error::new(Code::NotFound, message))
    }

    /// Calls a tool, which reports what its programs print to `progress`, if it is given. Dropping the future cancels the
    /// call.
    pub(crate) async fn call(
        &self,
        tool: &str,
        input: Input,
        progress: Option<Progress>,
    ) -> koze_core::Result<Reply> {
        let offering = self.current_offer().offering.clone();
        let toolset = offering.toolset.as_deref();
        self.client.call_reporting(offering.profiles, toolset, tool, input, progress).await
    }
}
