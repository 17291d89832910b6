//! The sandboxes of a supervisor, which its connections share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use koze_core::{Profiles, Progress, Result, Session, SessionId};
use tokio::sync::Mutex;

use crate::provider::MachineProvider;

pub(super) struct Host<P> {
    pub(super) id: SessionId,
    pub(super) provider: P,
    /// The session, with the profiles of the last call.
    session: Mutex<Option<(Profiles, Arc<Session<P>>)>>,
    retired: AtomicBool,
}

impl<P: MachineProvider> Host<P> {
    pub(super) fn new(id: SessionId, provider: P) -> Self {
        Host { id, provider, session: Mutex::new(None), retired: AtomicBool::new(false) }
    }

    /// Announces that the supervisor is about to exit. Returns whether it was announced before.
    pub(super) fn retire(&self) -> bool {
        self.retired.swap(true, Ordering::AcqRel)
    }

    /// Returns whether the supervisor is about to exit.
    pub(super) fn is_retired(&self) -> bool {
        self.retired.load(Ordering::Acquire)
    }

    /// Returns the session with these profiles. Its sandboxes are updated if the profiles changed.
    pub(super) async fn session(&self, profiles: Profiles) -> Result<Arc<Session<P>>> {
        let mut known = self.session.lock().await;
        if let Some((same, session)) = &*known
            && *same == profiles
        {
            return Ok(Arc::clone(session));
        }
        self.provider.refresh(&self.id, &profiles).await?;
        let session = Arc::new(Session::new(self.provider.clone(), self.id.clone(), profiles.clone()));
        *known = Some((profiles, Arc::clone(&session)));
        Ok(session)
    }
}

/// Returns the session of a call, which reports to `progress`, if it is given.
pub(super) fn reporting<P: MachineProvider>(session: &Session<P>, progress: Option<Progress>) -> Session<P> {
    match progress {
        Some(progress) => session.clone().with_progress(progress),
        None => session.clone(),
    }
}
