//! The contexts that this process has used: where the next read of each begins, and which call of it runs.
//!
//! The calls of a context take turns by the ID of its process, and what restarts or deletes it by its own ID.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};

pub(super) use self::pulse::Pulse;

/// How many contexts are remembered. One that was forgotten is read from the first output that is kept.
const MOST: usize = 1024;

/// Where a context is between two calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Position {
    /// Where the next read begins.
    pub(super) cursor: u64,
    /// Whether every call so far has ended by itself. Otherwise an interrupt may still be on its way to the code.
    pub(super) settled: bool,
}

impl Position {
    /// The position of a driver that has just started, and is read from `cursor` on.
    pub(super) fn new(cursor: u64) -> Self {
        Position { cursor, settled: true }
    }
}

impl Default for Position {
    /// The position of a context that another process may have used.
    fn default() -> Self {
        Position { cursor: 0, settled: false }
    }
}

/// A context.
#[derive(Debug, Clone, Default)]
struct Known {
    position: Arc<AsyncMutex<Position>>,
    pulse: Pulse,
}

/// The turn of a call of a context.
#[derive(Debug)]
pub(super) struct Turn {
    /// Where the context is.
    pub(super) position: OwnedMutexGuard<Position>,
    /// Shows other callers that the call runs.
    pub(super) pulse: Pulse,
}

static KNOWN: LazyLock<Mutex<HashMap<String, Known>>> = LazyLock::new(Mutex::default);

/// Waits until no other call with the key runs in this process.
#[cfg(not(target_arch = "wasm32"))]
pub(super) async fn wait_for_turn(key: &str) -> Turn {
    let Known { position, pulse } = find_or_insert(key);
    Turn { position: position.lock_owned().await, pulse }
}

/// Waits until no other call with the key runs in this isolate. In a Worker, one request cannot wake another, so each
/// polls. A request that was terminated with its client has not released its turn.
#[cfg(target_arch = "wasm32")]
pub(super) async fn wait_for_turn(key: &str) -> Turn {
    loop {
        let Known { position, pulse } = find_or_insert(key);
        if let Ok(position) = position.try_lock_owned() {
            pulse.beat();
            return Turn { position, pulse };
        }
        if pulse.is_lost() {
            forget_turns(key);
            continue;
        }
        crate::time::sleep(pulse::LOOK).await;
    }
}

fn find_or_insert(key: &str) -> Known {
    let mut known = lock_known();
    if known.len() >= MOST && !known.contains_key(key) {
        // Those in use are kept.
        known.retain(|_, one| Arc::strong_count(&one.position) > 1);
    }
    known.entry(key.to_owned()).or_default().clone()
}

pub(super) fn forget_turns(key: &str) {
    lock_known().remove(key);
}

fn lock_known() -> MutexGuard<'static, HashMap<String, Known>> {
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(not(target_arch = "wasm32"))]
mod pulse {
    /// Nothing: a call that ends releases its turn.
    #[derive(Debug, Clone, Default)]
    pub(in super::super) struct Pulse;

    impl Pulse {
        pub(in super::super) async fn beat_during<T>(&self, call: impl Future<Output = T>) -> T {
            call.await
        }
    }
}

#[cfg(target_arch = "wasm32")]
mod pulse {
    use std::convert::Infallible;
    use std::pin::pin;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::Duration;

    use futures_util::future::{Either, select};

    use crate::time::{now, sleep};

    /// The polling interval of a caller that waits for its turn.
    pub(super) const LOOK: Duration = Duration::from_millis(20);
    /// How often a running call shows that it runs.
    const BEAT: Duration = Duration::from_secs(1);
    /// The silence after which a call counts as terminated, in milliseconds.
    const LOST: u64 = 10_000;

    /// When the call that has the turn last showed that it runs.
    #[derive(Debug, Clone, Default)]
    pub(in super::super) struct Pulse(Arc<AtomicU64>);

    impl Pulse {
        pub(super) fn beat(&self) {
            self.0.store(now(), Ordering::Relaxed);
        }

        pub(super) fn is_lost(&self) -> bool {
            now().saturating_sub(self.0.load(Ordering::Relaxed)) > LOST
        }

        /// Runs a call, and shows meanwhile that it runs.
        pub(in super::super) async fn beat_during<T>(&self, call: impl Future<Output = T>) -> T {
            match select(pin!(call), pin!(self.beat_forever())).await {
                Either::Left((done, _)) => done,
                Either::Right((never, _)) => match never {},
            }
        }

        async fn beat_forever(&self) -> Infallible {
            loop {
                self.beat();
                sleep(BEAT).await;
            }
        }
    }
}
