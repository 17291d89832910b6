//! The contexts that this process has used: where the next read of each begins, and which call of it runs.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use tokio::sync::Mutex as AsyncMutex;

use crate::sandbox::process::ProcessId;

/// How many contexts are remembered. One that was forgotten is read from the first output that is kept.
const MOST: usize = 1024;

type Cursors = HashMap<ProcessId, Arc<AsyncMutex<u64>>>;

static KNOWN: LazyLock<Mutex<Cursors>> = LazyLock::new(Mutex::default);

/// Returns the cursor of a context. Its lock is held during a call, so that calls run one after the other.
pub(super) fn cursor(id: &ProcessId) -> Arc<AsyncMutex<u64>> {
    let mut known = known();
    if known.len() >= MOST && !known.contains_key(id) {
        // Those in use are kept.
        known.retain(|_, cursor| Arc::strong_count(cursor) > 1);
    }
    Arc::clone(known.entry(id.clone()).or_default())
}

pub(super) fn forget(id: &ProcessId) {
    known().remove(id);
}

fn known() -> MutexGuard<'static, Cursors> {
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner)
}
