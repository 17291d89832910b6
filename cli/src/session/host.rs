//! The sandboxes of a supervisor, which its connections share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use koze_core::{Profiles, Progress, Result, SandboxId, SandboxName, Session, SessionId};
use tokio::sync::Mutex;

use super::no_sandbox_among;
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

    /// Returns a sandbox that exists.
    pub(super) async fn existing(&self, name: &str) -> Result<P::Sandbox> {
        let id = SandboxId { session: self.id.clone(), name: SandboxName::new(name)? };
        if let Some(found) = self.provider.find(&id).await? {
            return Ok(found.sandbox);
        }
        let infos = self.provider.list(&self.id).await?;
        let names: Vec<_> = infos.iter().map(|info| info.name.to_string()).collect();
        Err(no_sandbox_among(name, &names))
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

/// Returns the session for the calls of a client. Those without a name are koze's own, which the journal does not record.
pub(super) fn called_by<P: MachineProvider>(session: &Session<P>, client: Option<&str>) -> Session<P> {
    match client {
        Some(client) => session.clone().with_client(client),
        None => session.clone().without_journal(),
    }
}

/// Returns the session of a call, which reports to `progress`, if it is given.
pub(super) fn reporting<P: MachineProvider>(session: &Session<P>, progress: Option<Progress>) -> Session<P> {
    match progress {
        Some(progress) => session.clone().with_progress(progress),
        None => session.clone(),
    }
}
