//! The sandboxes of a supervisor, which its connections share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use koze_core::{Profiles, Progress, Result, Session, SessionId};
use koze_local::Local;
use tokio::sync::Mutex;

pub(super) struct Host {
    pub(super) id: SessionId,
    pub(super) provider: Local,
    /// The session, with the profiles of the last call.
    session: Mutex<Option<(Profiles, Arc<Session<Local>>)>>,
    retired: AtomicBool,
}

impl Host {
    pub(super) fn new(id: SessionId, provider: Local) -> Self {
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
    pub(super) async fn session(&self, profiles: Profiles) -> Result<Arc<Session<Local>>> {
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
pub(super) fn reporting(session: &Session<Local>, progress: Option<Progress>) -> Session<Local> {
    match progress {
        Some(progress) => session.clone().with_progress(progress),
        None => session.clone(),
    }
}
