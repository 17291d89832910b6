//! Watches the sandboxes of a provider: puts idle ones to sleep, and kills the programs of those that exceed a limit.
//!
//! Each running sandbox has its own thread, and another one for measuring its files, so that an expensive sandbox does
//! not delay the others. None of these threads blocks the one that serves calls.

mod budget;
mod follow;
pub(crate) mod measure;
mod pace;
mod sockets;
mod usage;
mod verdict;
mod writers;

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use self::follow::Follower;
use crate::Shared;
use crate::engine::engine;
use crate::sandbox::inner::Inner;
use crate::sandbox::running::Running;
use crate::weakness::Weakness;

/// The interval between checks.
const PERIOD: Duration = Duration::from_millis(150);

/// A running sandbox that is watched.
struct Watched {
    running: Weak<Running>,
    /// Set in tests whose sandboxes are all watched by this thread.
    here: Option<Follower>,
}

/// Watches for as long as the provider exists.
pub(super) fn watch_sandboxes(provider: &Weak<Shared>) {
    let mut watched: HashMap<String, Watched> = HashMap::new();
    loop {
        std::thread::sleep(PERIOD);
        let Some(shared) = provider.upgrade() else { return };
        let sandboxes = shared.sandboxes();
        drop(shared);
        watched.retain(|_, one| one.running.strong_count() > 0);
        for sandbox in sandboxes {
            let Some(running) = sandbox.running() else { continue };
            if sandbox.idle() {
                if let Ok(engine) = engine() {
                    engine.spawn(async move { sandbox.rest().await });
                }
                continue;
            }
            let known = watched.get_mut(&sandbox.key);
            match known.filter(|known| std::ptr::eq(known.running.as_ptr(), Arc::as_ptr(&running))) {
                Some(Watched { here: Some(follower), .. }) => follower.look(&sandbox, &running),
                Some(_) => {}
                // If no thread can be created, the next round retries.
                None => {
                    drop(begin_watch(&sandbox, &running).map(|new| watched.insert(sandbox.key.clone(), new)));
                }
            }
        }
    }
}

fn begin_watch(sandbox: &Arc<Inner>, running: &Arc<Running>) -> std::io::Result<Watched> {
    let mut follower = Follower::default();
    let weak = Arc::downgrade(running);
    if sandbox.weak.has(&Weakness::Budget) {
        return Ok(Watched { running: weak, here: Some(follower) });
    }
    let (sandbox, watched) = (Arc::downgrade(sandbox), Weak::clone(&weak));
    std::thread::Builder::new().name("koze-watch".into()).spawn(move || {
        loop {
            let (Some(sandbox), Some(running)) = (sandbox.upgrade(), watched.upgrade()) else { return };
            if running.has_ended() {
                return;
            }
            follower.look(&sandbox, &running);
            drop((sandbox, running));
            std::thread::sleep(PERIOD);
        }
    })?;
    Ok(Watched { running: weak, here: None })
}
