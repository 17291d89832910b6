//! The previews that a browser of scripts opens: those of the session whose call it serves.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use hyper::StatusCode;

use super::super::http::Refusal;
use super::address::Address;
use super::forward::{Port, find_port};
use crate::Shared;
use koze_core::id::SessionId;

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
    pub(in super::super) fn session(&self) -> Option<SessionId> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the port of a sandbox that a lowercase host and a port lead to. Returns `None` if they are not those of a preview
    /// of this program.
    pub(in super::super) async fn find(&self, host: &str, port: u16) -> Option<Result<Port, Refusal>> {
        let address = Address::parse(host)?;
        let is_served = self.shared.upgrade().is_some_and(|shared| shared.previews.port() == Some(port));
        if !is_served {
            return None;
        }
        let found = find_port(Weak::clone(&self.shared), &address).await;
        Some(match found {
            Ok(found) if self.session().is_some_and(|session| found.sandbox.is_of(&session)) => Ok(found),
            // The same answer, so that it does not reveal which sandboxes other sessions have.
            Ok(_) => Err(foreign_preview()),
            Err(refusal) if refusal.status == StatusCode::NOT_FOUND => Err(foreign_preview()),
            Err(refusal) => Err(refusal),
        })
    }
}

fn foreign_preview() -> Refusal {
    Refusal::new(
        StatusCode::FORBIDDEN,
        "this is not a preview of a sandbox of this session, and the browser opens no others: use the URL exactly as `browse` \
         returned it in this session",
    )
}
