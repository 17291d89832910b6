//! The tools that the server offers, as the project's files currently declare them.

use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

use koze_core::tool::{Input, Reply};
use koze_core::{Code, Error, Progress};

use crate::args;
use crate::commands::local::local_session::{self, Offered};
use crate::mcp::offering::Offering;
use crate::mcp::server::{Backend, Offer};
use crate::session::Client;

/// A project and its last known offer.
#[derive(Debug)]
pub(super) struct Project {
    args: args::SessionArgs,
    toolset: Option<String>,
    now: Mutex<Arc<Offer>>,
}

impl Project {
    /// Reads the project. Shows errors.
    pub(super) fn new(args: args::SessionArgs, toolset: Option<String>) -> Result<Self, ExitCode> {
        let now = Mutex::new(read(&args, toolset.as_ref())?);
        Ok(Project { args, toolset, now })
    }

    /// Returns the current offer. Reads the project again if its files have changed.
    pub(super) fn now(&self) -> Arc<Offer> {
        let mut now = self.now.lock().unwrap_or_else(PoisonError::into_inner);
        if !now.offering.holds() {
            match read(&self.args, self.toolset.as_ref()) {
                Ok(new) => *now = new,
                // The errors were shown. The project is read again after the next change.
                Err(_) => Arc::make_mut(&mut now).offering.look_again(),
            }
        }
        Arc::clone(&now)
    }
}

/// The sandboxes of a session, accessed through its supervisor.
#[derive(Debug, Clone)]
pub(super) struct Supervised {
    pub(super) client: Client,
    pub(super) project: Arc<Project>,
}

impl Supervised {
    /// Checks that a request names the session that is served.
    pub(super) fn check_session(&self, session: &str) -> Result<(), Error> {
        if session == self.client.session().session() {
            return Ok(());
        }
        let message = "this server serves another session: the URL must have the name given with `--session`";
        Err(Error::new(Code::NotFound, message))
    }
}

impl Backend for Supervised {
    async fn offer(&self) -> Arc<Offer> {
        self.project.now()
    }

    async fn call(&self, tool: &str, input: Input, progress: Option<Progress>) -> koze_core::Result<Reply> {
        let offering = self.project.now().offering.clone();
        let toolset = offering.toolset.as_deref();
        self.client.call_reporting(offering.profiles, toolset, tool, input, progress).await
    }
}

fn read(args: &args::SessionArgs, toolset: Option<&String>) -> Result<Arc<Offer>, ExitCode> {
    let Offered { profiles, files, generated } = local_session::offered(args)?;
    let files = files.into_iter().chain([generated]);
    let offer = Offer::new(Offering::new(profiles, toolset.cloned(), files));
    offer.map(Arc::new).map_err(|error| local_session::failed(&error))
}
