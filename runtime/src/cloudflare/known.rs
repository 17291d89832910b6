//! A cache of the sandboxes that this isolate has seen, so that a warm call need not locate its sandbox. Entries may be
//! outdated: an object that is not open says so.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use super::Located;
use koze_core::id::{SandboxId, SandboxName, SessionId};

/// The maximum number of entries.
const MAX_ENTRIES: usize = 10_000;

/// The minimum interval between recorded uses, in milliseconds.
const NOTE: u64 = 60_000;

/// The entry of a sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Known {
    located: Located,
    /// When its use was last recorded in the registry.
    noted: u64,
}

static SANDBOXES: LazyLock<Mutex<HashMap<SandboxId, Known>>> = LazyLock::new(Mutex::default);

fn sandboxes() -> MutexGuard<'static, HashMap<SandboxId, Known>> {
    SANDBOXES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the entry of a sandbox.
pub(super) fn get(id: &SandboxId) -> Option<Located> {
    sandboxes().get(id).map(|known| known.located.clone())
}

/// Returns the known sandboxes of a session with their classes.
pub(super) fn of_session(session: &SessionId) -> Vec<(SandboxName, usize)> {
    let sandboxes = sandboxes();
    let all = sandboxes.iter().filter(|(id, _)| id.session == *session);
    all.map(|(id, known)| (id.name.clone(), known.located.class)).collect()
}

/// Adds a sandbox whose use has just been recorded.
pub(super) fn remember(id: &SandboxId, located: &Located, now: u64) {
    let mut sandboxes = sandboxes();
    if sandboxes.len() >= MAX_ENTRIES {
        sandboxes.clear();
    }
    sandboxes.insert(id.clone(), Known { located: located.clone(), noted: now });
}

/// Removes a sandbox.
pub(super) fn forget(id: &SandboxId) {
    sandboxes().remove(id);
}

/// Returns whether a use should be recorded now. The caller then records it.
pub(super) fn should_record_use(id: &SandboxId, now: u64) -> bool {
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
        assert!(get(&id).is_none() && !should_record_use(&id, NOTE));
        let located = Located { class: 1, sleep_after_ms: Some(5), size: None };
        remember(&id, &located, 7);
        assert_eq!(get(&id), Some(located));
        assert_eq!(of_session(&id.session), [(id.name.clone(), 1)]);
        assert!(of_session(&SessionId::new("known", "other").unwrap()).is_empty());
        assert!(!should_record_use(&id, 6 + NOTE));
        assert!(should_record_use(&id, 7 + NOTE) && !should_record_use(&id, 8 + NOTE));
        forget(&id);
        assert!(get(&id).is_none());
    }
}
