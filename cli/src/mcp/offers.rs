//! What a project offers to the clients of a server, by the tools that they ask for.

use std::sync::Arc;

use koze_core::{Profiles, Result};

use super::server::Offer;

/// The current offer of a project, and the tools of it that a client asks for. A clone is the same.
#[derive(Clone)]
pub(crate) struct Offers {
    read: Arc<dyn Fn() -> Arc<Offer> + Send + Sync>,
    /// The toolset, if it is not the one of the server.
    toolset: Option<String>,
}

impl Offers {
    /// `read` returns what the project currently offers.
    pub(crate) fn new(read: impl Fn() -> Arc<Offer> + Send + Sync + 'static) -> Self {
        Offers { read: Arc::new(read), toolset: None }
    }

    /// Returns the offers of a toolset, or of the server's without one.
    ///
    /// # Errors
    /// As [`Offer::select`].
    pub(crate) fn select(&self, toolset: Option<&str>) -> Result<Self> {
        let offers = Offers { read: Arc::clone(&self.read), toolset: toolset.map(str::to_owned) };
        offers.current()?;
        Ok(offers)
    }

    /// Returns the profiles of the project.
    pub(crate) fn profiles(&self) -> Profiles {
        (self.read)().offering.profiles.clone()
    }

    /// Returns what the project currently offers.
    ///
    /// # Errors
    /// As [`Offer::select`]: the project may have changed.
    pub(crate) fn current(&self) -> Result<Arc<Offer>> {
        let offer = (self.read)();
        match &self.toolset {
            Some(toolset) => offer.select(toolset).map(Arc::new),
            None => Ok(offer),
        }
    }
}
