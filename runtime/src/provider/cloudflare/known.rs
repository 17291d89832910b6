//! What this isolate remembers of sandboxes, so that a warm call asks nobody where its sandbox is. Nothing here has to be
//! true: an object that is no sandbox any more says so.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use koze_core::id::{SandboxId, SandboxName, SessionId};

/// How many sandboxes are remembered.
const MOST: usize = 10_000;

/// How often the registry hears that a sandbox is used, in milliseconds.
const NOTE: u64 = 60_000;

/// What is remembered of a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Known {
    /// Which of the classes it is of.
    pub(super) class: usize,
    /// How long it may idle, where that is known.
    pub(super) sleep_after_ms: Option<u32>,
    /// When the registry last heard that it is used.
    noted: u64,
}

static SANDBOXES: LazyLock<Mutex<HashMap<SandboxId, Known>>> = LazyLock::new(Mutex::default);

fn sandboxes() -> MutexGuard<'static, HashMap<SandboxId, Known>> {
    SANDBOXES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What is remembered of a sandbox, if anything is.
pub(super) fn get(id: &SandboxId) -> Option<Known> {
    sandboxes().get(id).copied()
}

/// The sandboxes of a session that are remembered, and the class of each.
pub(super) fn of_session(session: &SessionId) -> Vec<(SandboxName, usize)> {
    let sandboxes = sandboxes();
    let all = sandboxes.iter().filter(|(id, _)| id.session == *session);
    all.map(|(id, known)| (id.name.clone(), known.class)).collect()
}

/// Remembers a sandbox, of which the registry has heard now.
pub(super) fn remember(id: &SandboxId, class: usize, sleep_after_ms: Option<u32>, now: u64) {
    let mut sandboxes = sandboxes();
    if sandboxes.len() >= MOST {
        sandboxes.clear();
    }
    sandboxes.insert(id.clone(), Known { class, sleep_after_ms, noted: now });
}

/// Forgets a sandbox.
pub(super) fn forget(id: &SandboxId) {
    sandboxes().remove(id);
}

/// Whether the registry should hear now that a sandbox is used; who asks tells it.
pub(super) fn is_to_be_noted(id: &SandboxId, now: u64) -> bool {
    let mut sandboxes = sandboxes();
    let Some(known) = sandboxes.get_mut(id) else { return false };
    let due = now.saturating_sub(known.noted) >= NOTE;
    if due {
        known.noted = now;
    }
    due
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_use_is_noted_once_a_minute() {
        let session = SessionId::new("known", "noted").unwrap();
        let id = SandboxId { session, name: SandboxName::new("a").unwrap() };
        assert!(get(&id).is_none() && !is_to_be_noted(&id, NOTE));
        remember(&id, 1, Some(5), 7);
        assert_eq!(get(&id), Some(Known { class: 1, sleep_after_ms: Some(5), noted: 7 }));
        assert_eq!(of_session(&id.session), [(id.name.clone(), 1)]);
        assert!(of_session(&SessionId::new("known", "other").unwrap()).is_empty());
        assert!(!is_to_be_noted(&id, 6 + NOTE));
        assert!(is_to_be_noted(&id, 7 + NOTE) && !is_to_be_noted(&id, 8 + NOTE));
        forget(&id);
        assert!(get(&id).is_none());
    }
}
