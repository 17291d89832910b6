//! The tools that the server offers, as the project's files currently declare them.

use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};

use crate::args;
use crate::commands::local::local_session::{self, LocalSession, Offered};
use crate::discover;
use crate::mcp::offering::Offering;
use crate::mcp::server::Offer;

/// A project and its last known offer.
#[derive(Debug)]
pub(in crate::commands) struct Project {
    args: args::SessionArgs,
    offer: args::OfferArgs,
    now: Mutex<Arc<Offer>>,
}

impl Project {
    /// Reads the project. Shows errors.
    pub(in crate::commands) fn new(
        args: args::SessionArgs,
        offer: args::OfferArgs,
    ) -> Result<Self, ExitCode> {
        let now = Mutex::new(read_offer(&args, &offer)?);
        Ok(Project { args, offer, now })
    }

    /// Returns the current offer. Reads the project again if its files have changed.
    pub(in crate::commands) fn now(&self) -> Arc<Offer> {
        let mut now = self.now.lock().unwrap_or_else(PoisonError::into_inner);
        if !now.offering.holds() {
            match read_offer(&self.args, &self.offer) {
                Ok(new) => *now = new,
                // The errors were shown. The project is read again after the next change.
                Err(_) => Arc::make_mut(&mut now).offering.look_again(),
            }
        }
        Arc::clone(&now)
    }
}

/// Returns the package of a project that can serve these tools to a client. Shows errors.
pub(in crate::commands) fn find_servable(
    args: &args::SessionArgs,
    offer: &args::OfferArgs,
) -> Result<discover::Project, ExitCode> {
    LocalSession::find(args)?;
    read_offer(args, offer)?;
    local_session::find_project(&args.project)
}

fn read_offer(args: &args::SessionArgs, offer: &args::OfferArgs) -> Result<Arc<Offer>, ExitCode> {
    let Offered { profiles, files, generated } = local_session::offered(args)?.on(offer.image);
    let files = files.into_iter().chain([generated]);
    let offer = Offer::new(Offering::new(profiles, offer.tools.clone(), files));
    offer.map(Arc::new).map_err(|error| local_session::failed(&error))
}
