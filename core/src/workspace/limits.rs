//! Limits of workspaces that are opened or attached at the same time.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::error::{Code, Error, Result};
use crate::time::{Start, sleep};

/// Concurrent first attachments after a restart are spread over this time.
const SPREAD: Duration = Duration::from_millis(300);
/// How long transient errors are retried.
const PATIENCE: Duration = Duration::from_secs(10);
/// The first pause between two attempts; each next one is twice as long.
const PAUSE: Duration = Duration::from_millis(100);

/// The limits of a provider: how many workspaces of all its sessions are opened or attached at the same time. A clone is
/// the same limits.
///
/// Without such a limit, each profile is limited to its `max_instances`; a profile without that key has no limit.
#[derive(Debug, Clone, Default)]
pub struct OpenLimits {
    all: Option<Arc<Gate>>,
    profiles: Arc<Mutex<BTreeMap<String, Arc<Gate>>>>,
}

impl OpenLimits {
    /// Limits all profiles together.
    ///
    /// # Panics
    /// If the limit is 0.
    pub fn new(most: usize) -> Self {
        OpenLimits { all: Some(Arc::new(Gate::new(most))), profiles: Arc::default() }
    }

    /// Returns the gate of a profile.
    pub(super) fn profile_gate(&self, profile: &str, max_instances: Option<u32>) -> Arc<Gate> {
        if let Some(all) = &self.all {
            return Arc::clone(all);
        }
        let most = max_instances.map_or(Semaphore::MAX_PERMITS, |most| most.max(1) as usize);
        let mut profiles = self.profiles.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(profiles.entry(profile.to_owned()).or_insert_with(|| Arc::new(Gate::new(most))))
    }
}

/// A limit, and the number of callers that are inside or waiting.
#[derive(Debug)]
pub(super) struct Gate {
    permits: Arc<Semaphore>,
    present: AtomicUsize,
}

/// The permission to open a workspace, until it is dropped.
#[derive(Debug)]
pub(super) struct Pass {
    _present: Present,
    _permit: OwnedSemaphorePermit,
}

/// Counts a caller from its arrival on, even if it is canceled while it waits.
#[derive(Debug)]
struct Present(Arc<Gate>);

impl Drop for Present {
    fn drop(&mut self) {
        self.0.present.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Gate {
    pub(super) fn new(most: usize) -> Self {
        assert!(most > 0, "a limit of 0 would let nothing through");
        let permits = Arc::new(Semaphore::new(most.min(Semaphore::MAX_PERMITS)));
        Gate { permits, present: AtomicUsize::new(0) }
    }

    /// Waits for a permission. With `spread`, concurrent callers first wait for a random time.
    pub(super) async fn acquire_pass(self: &Arc<Self>, spread: bool) -> Result<Pass> {
        let others = self.present.fetch_add(1, Ordering::Relaxed);
        let present = Present(Arc::clone(self));
        if spread && others > 0 && has_timers() {
            sleep(jitter()).await;
        }
        let closed = |_| Error::new(Code::Internal, "the limit of open workspaces was closed");
        let permit = Arc::clone(&self.permits).acquire_owned().await.map_err(closed)?;
        Ok(Pass { _present: present, _permit: permit })
    }
}

/// Returns whether the caller can wait. Natively, a caller outside of tokio cannot.
fn has_timers() -> bool {
    cfg!(target_arch = "wasm32") || in_tokio()
}

#[cfg(not(target_arch = "wasm32"))]
fn in_tokio() -> bool {
    tokio::runtime::Handle::try_current().is_ok()
}

#[cfg(target_arch = "wasm32")]
fn in_tokio() -> bool {
    false
}

/// Returns a random time within [`SPREAD`].
fn jitter() -> Duration {
    let random = uuid::Uuid::new_v4().as_u128() % (SPREAD.as_millis() + 1);
    Duration::from_millis(u64::try_from(random).unwrap_or_default())
}

/// Decides whether an operation is tried again after an error.
#[derive(Debug)]
pub(super) struct Retry {
    start: Start,
    pause: Duration,
}

impl Retry {
    pub(super) fn new() -> Self {
        Retry { start: Start::now(), pause: PAUSE }
    }

    /// Waits before the next attempt. Returns `false` if the error is not transient, or if the time is up.
    pub(super) async fn wait_after(&mut self, error: &Error) -> bool {
        let late = self.start.elapsed() + self.pause > PATIENCE;
        if error.code != Code::Unavailable || late || !has_timers() {
            return false;
        }
        sleep(self.pause).await;
        self.pause *= 2;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run<T>(work: impl Future<Output = T>) -> T {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(work)
    }

    #[test]
    fn a_gate_lets_through_what_it_is_limited_to() {
        run(async {
            let limits = OpenLimits::new(2);
            let gate = limits.profile_gate("a", Some(9));
            assert!(
                Arc::ptr_eq(&gate, &limits.clone().profile_gate("b", None)),
                "one limit for all profiles"
            );
            let (first, second) =
                (gate.acquire_pass(false).await.unwrap(), gate.acquire_pass(false).await.unwrap());
            let mut third = Box::pin(gate.acquire_pass(false));
            assert!(futures_util::poll!(&mut third).is_pending());
            drop(first);
            assert!(third.await.is_ok());
            drop(second);
            assert_eq!(gate.present.load(Ordering::Relaxed), 0);
        });
    }

    #[test]
    fn profiles_are_limited_to_their_instances() {
        run(async {
            let limits = OpenLimits::default();
            let (one, any) = (limits.profile_gate("a", Some(1)), limits.profile_gate("b", None));
            let _first = one.acquire_pass(false).await.unwrap();
            assert!(futures_util::poll!(Box::pin(one.acquire_pass(false))).is_pending());
            let many: Vec<_> = (0..100).map(|_| any.acquire_pass(false)).collect();
            for pass in many {
                pass.await.unwrap();
            }
        });
    }

    #[test]
    fn only_transient_errors_are_retried() {
        run(async {
            let mut retry = Retry::new();
            assert!(!retry.wait_after(&Error::new(Code::NotFound, "x")).await);
            let down = Error::new(Code::Unavailable, "x");
            assert!(retry.wait_after(&down).await && retry.wait_after(&down).await);
            retry.pause = PATIENCE;
            assert!(!retry.wait_after(&down).await);
        });
    }
}
