//! The previews that a browser of scripts opens: those of the session whose call it serves.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use futures_util::FutureExt as _;
use futures_util::future::BoxFuture;
use hyper::StatusCode;
use koze_core::id::SessionId;
use koze_egress::OpenPreviews;
use koze_egress::http::Refusal;
use koze_egress::preview::{Address, Port};

use super::{SandboxServer, find_server};
use crate::Shared;

/// The previews of a session. Another session of the same agent may be the next one to use the browser.
#[derive(Debug)]
pub(in super::super::super) struct OwnPreviews {
    shared: Weak<Shared>,
    session: Mutex<Option<SessionId>>,
}

impl OwnPreviews {
    pub(in super::super::super) fn new(shared: &Arc<Shared>) -> Self {
        OwnPreviews { shared: Arc::downgrade(shared), session: Mutex::default() }
    }

    /// Sets the session. Without one, there are no previews.
    pub(in super::super::super) fn set_session(&self, session: Option<SessionId>) {
        *self.session.lock().unwrap_or_else(PoisonError::into_inner) = session;
    }

    /// Returns the session.
    fn session(&self) -> Option<SessionId> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the server of a sandbox that a lowercase host and a port lead to. Returns `None` if they are not those of a preview
    /// of this program.
    async fn find_own(&self, host: &str, port: u16) -> Option<Result<SandboxServer, Refusal>> {
        let address = Address::parse(host)?;
        let is_served = self.shared.upgrade().is_some_and(|shared| shared.previews.port() == Some(port));
        if !is_served {
            return None;
        }
        let found = find_server(&self.shared, &address).await;
        Some(match found {
            Ok(found) if self.session().is_some_and(|session| found.sandbox.is_of(&session)) => Ok(found),
            // The same answer, so that it does not reveal which sandboxes other sessions have.
            Ok(_) => Err(foreign_preview()),
            Err(refusal) if refusal.status == StatusCode::NOT_FOUND => Err(foreign_preview()),
            Err(refusal) => Err(refusal),
        })
    }
}

impl OpenPreviews for OwnPreviews {
    fn find<'a>(&'a self, host: &'a str, port: u16) -> BoxFuture<'a, Option<Result<Port, Refusal>>> {
        async move { Some(self.find_own(host, port).await?.map(Port::new)) }.boxed()
    }

    fn has_session(&self) -> bool {
        self.session().is_some()
    }
}

fn foreign_preview() -> Refusal {
    Refusal::new(
        StatusCode::FORBIDDEN,
        "this is not a preview of a sandbox of this session, and the browser opens no others: use the URL exactly as `browse` \
         returned it in this session",
    )
}
