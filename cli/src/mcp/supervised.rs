//! The sandboxes of a session, accessed through its supervisor.

use std::sync::Arc;

use koze_core::journal::{Page, PageRequest};
use koze_core::tool::agent::Browse;
use koze_core::tool::{Input, Reply, Tool as _};
use koze_core::{Code, Error, Profiles, Progress, Result};

use super::offers::Offers;
use super::server::Offer;
use super::tasks::Tasks;
use crate::provider::{self, CallsQuery};
use crate::serve::Previews;
use crate::session::Client;

/// The sandboxes of a session, and the tools that its project currently offers. A clone is the same.
#[derive(Clone)]
pub(crate) struct Supervised {
    client: Client,
    offers: Offers,
    /// Held as long as the session is in use.
    _usage: Option<Arc<()>>,
    /// The previews of the server, if it has a host for them.
    previews: Option<Previews>,
    /// The calls that go on after their requests.
    tasks: Tasks,
}

impl Supervised {
    pub(crate) fn new(client: Client, offers: Offers) -> Self {
        Supervised { client, offers, _usage: None, previews: None, tasks: Tasks::default() }
    }

    /// Returns the same sandboxes, whose clones hold `usage`.
    #[must_use]
    pub(crate) fn with_usage(self, usage: Arc<()>) -> Self {
        Supervised { _usage: Some(usage), ..self }
    }

    /// Returns the same sandboxes, with URLs of `browse` that lead to a server.
    #[must_use]
    pub(crate) fn with_previews(self, previews: Option<Previews>) -> Self {
        Supervised { previews, ..self }
    }

    /// Returns the same sandboxes, whose calls may go on among these tasks.
    #[must_use]
    pub(crate) fn with_tasks(self, tasks: Tasks) -> Self {
        Supervised { tasks, ..self }
    }

    /// Returns the same sandboxes with the tools of these offers.
    #[must_use]
    pub(crate) fn with_offers(self, offers: Offers) -> Self {
        Supervised { offers, ..self }
    }

    /// Returns the calls that go on after their requests.
    pub(super) fn tasks(&self) -> &Tasks {
        &self.tasks
    }

    /// Returns the connection to the supervisor.
    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// Returns the profiles of the project.
    pub(crate) fn profiles(&self) -> Profiles {
        self.offers.profiles()
    }

    /// Returns what the project currently offers.
    ///
    /// # Errors
    /// As [`Offers::current`].
    pub(crate) fn current_offer(&self) -> Result<Arc<Offer>> {
        self.offers.current()
    }

    /// Returns the same sandboxes for a client with this name, for the journal. Calls without one are not recorded.
    #[must_use]
    pub(crate) fn named(&self, client: &str) -> Self {
        Supervised { client: self.client.clone().named(client), ..self.clone() }
    }

    /// Calls a tool, which reports what its programs print to `progress`, if it is given. Dropping the future cancels the
    /// call.
    pub(crate) async fn call(&self, tool: &str, input: Input, progress: Option<Progress>) -> Result<Reply> {
        let offering = self.current_offer()?.offering.clone();
        let toolset = offering.toolset.as_deref();
        let called = self.client.call_reporting(offering.profiles, toolset, tool, input, progress).await;
        match &self.previews {
            Some(previews) if tool == Browse::NAME => Ok(previews.publish(&self.client, called?)),
            _ => called,
        }
    }

    /// Reads a page of the session's journal. Starts no supervisor.
    ///
    /// # Errors
    /// Returns an error if the journal cannot be read.
    pub(crate) async fn read_journal(&self, request: PageRequest) -> Result<Page> {
        let file = self.client.state().journal();
        let query = CallsQuery {
            session: Some(self.client.session().session().to_owned()),
            after: request.since,
            limit: Some(request.limit),
            ..CallsQuery::default()
        };
        let read = tokio::task::spawn_blocking(move || provider::read_calls(&file, &query)).await;
        let calls = read.map_err(|error| {
            Error::new(Code::Internal, "the journal of tool calls cannot be read").with_source(error)
        })??;
        Ok(Page::new(request, calls))
    }
}
