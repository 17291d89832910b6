//! The open connections of a listener. An unproven connection has little time, and is closed when others need its room,
//! so that idle connections cannot lock out legitimate clients.

use std::collections::BTreeMap;
use std::future::{Future, pending};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::task::{AbortHandle, JoinSet};

/// How long a connection may take to prove itself.
const DEADLINE: Duration = Duration::from_secs(15);

/// The unproven connections, oldest first.
type Unproven = BTreeMap<u64, AbortHandle>;

/// The open connections of a listener. Dropping it closes them all.
#[derive(Debug)]
pub struct Connections {
    open: JoinSet<()>,
    unproven: Arc<Mutex<Unproven>>,
    next: u64,
    most: usize,
}

/// A handle with which a connection is marked as proven, for example by a token.
#[derive(Debug, Clone)]
pub struct Proof {
    unproven: Arc<Mutex<Unproven>>,
    number: u64,
}

impl Proof {
    /// Marks the connection as proven. It then stays open as long as it is served.
    pub fn give(&self) {
        lock_unproven(&self.unproven).remove(&self.number);
    }

    fn is_given(&self) -> bool {
        !lock_unproven(&self.unproven).contains_key(&self.number)
    }
}

/// Removes a connection from the list when dropped.
struct Listed(Proof);

impl Drop for Listed {
    fn drop(&mut self) {
        self.0.give();
    }
}

impl Connections {
    /// Creates a list for `most` connections, half of which may be unproven.
    pub fn new(most: usize) -> Self {
        Connections { open: JoinSet::new(), unproven: Arc::default(), next: 0, most: most.max(2) }
    }

    /// Waits for room for one more connection. The oldest unproven one is closed for it; if all are proven, one of them
    /// has to end first.
    pub async fn room(&mut self) {
        loop {
            while self.open.try_join_next().is_some() {}
            let full = self.open.len() >= self.most;
            let crowded = lock_unproven(&self.unproven).len() >= self.most / 2;
            if !full && !crowded {
                return;
            }
            self.evict();
            self.open.join_next().await;
        }
    }

    /// Closes the oldest unproven connection, if any.
    pub fn evict(&mut self) {
        if let Some((_, oldest)) = lock_unproven(&self.unproven).pop_first() {
            oldest.abort();
        }
    }

    /// Serves a new, unproven connection.
    pub fn serve<F>(&mut self, serve: impl FnOnce(Proof) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let proof = Proof { unproven: Arc::clone(&self.unproven), number: self.next };
        self.next += 1;
        let (listed, number) = (Listed(proof.clone()), proof.number);
        let work = serve(proof);
        // The lock is held until the connection is listed, because the proof may arrive at once.
        let mut unproven = lock_unproven(&self.unproven);
        let handle = self.open.spawn(async move {
            let mut work = pin!(work);
            tokio::select! {
                () = &mut work => {}
                () = tokio::time::sleep(DEADLINE) => if listed.0.is_given() { work.await },
            }
        });
        unproven.insert(number, handle);
    }

    /// Waits until a connection ends.
    pub async fn ended(&mut self) {
        if self.open.join_next().await.is_none() {
            pending::<()>().await;
        }
    }
}

fn lock_unproven(unproven: &Mutex<Unproven>) -> MutexGuard<'_, Unproven> {
    unproven.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use tokio::time::timeout;

    use super::*;

    /// An idle connection that is counted while it is open.
    struct Idle(Arc<AtomicUsize>);

    impl Drop for Idle {
        fn drop(&mut self) {
            self.0.fetch_sub(1, Ordering::AcqRel);
        }
    }

    async fn idle(connections: &mut Connections, open: &Arc<AtomicUsize>, proved: bool) {
        open.fetch_add(1, Ordering::AcqRel);
        let idle = Idle(Arc::clone(open));
        connections.serve(|proof| async move {
            if proved {
                proof.give();
            }
            let _idle = idle;
            pending::<()>().await;
        });
        tokio::task::yield_now().await;
    }

    fn run(test: impl Future<Output = ()>) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(test);
    }

    #[test]
    fn three_hundred_idle_connections_block_nobody() {
        run(async {
            let (mut connections, open) = (Connections::new(8), Arc::new(AtomicUsize::new(0)));
            for _ in 0..300 {
                connections.room().await;
                idle(&mut connections, &open, false).await;
            }
            assert_eq!(open.load(Ordering::Acquire), 4, "half of the room is theirs");
            connections.room().await;
            let (served, answered) = tokio::sync::oneshot::channel();
            connections.serve(|proof| async move {
                proof.give();
                let _ = served.send(());
                pending::<()>().await;
            });
            answered.await.unwrap();
            // It stays, regardless of how many follow.
            for _ in 0..300 {
                connections.room().await;
                idle(&mut connections, &open, false).await;
            }
            assert_eq!((open.load(Ordering::Acquire), connections.open.len()), (4, 5));
        });
    }

    /// The control: if idle connections count as proven, there is no room.
    #[test]
    fn control_idle_connections_without_proof_block_everybody() {
        run(async {
            let (mut connections, open) = (Connections::new(8), Arc::new(AtomicUsize::new(0)));
            for _ in 0..8 {
                connections.room().await;
                idle(&mut connections, &open, true).await;
            }
            assert!(timeout(Duration::from_millis(50), connections.room()).await.is_err());
            assert_eq!(open.load(Ordering::Acquire), 8);
        });
    }

    #[test]
    fn ended_connections_are_removed() {
        run(async {
            let mut connections = Connections::new(8);
            for _ in 0..100 {
                connections.room().await;
                connections.serve(|_| async {});
                connections.ended().await;
            }
            assert!(lock_unproven(&connections.unproven).is_empty());
        });
    }
}
