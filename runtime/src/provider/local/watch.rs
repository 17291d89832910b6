//! Looks after the sandboxes of a provider: sends to sleep what idles, and ends what takes more than it may.

use std::collections::HashMap;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use koze_guest::message::Request;

use super::engine::engine;
use super::running::Running;
use super::sandbox::Inner;
use super::{Shared, disk, layout, usage};

/// How often it looks.
pub(super) const PERIOD: Duration = Duration::from_millis(150);
/// How long a sandbox may have nearly all the processes it may have: a fork bomb ends no other way.
const CROWDED: Duration = Duration::from_secs(1);
/// How long the guest may take to kill what there is; then the whole sandbox ends.
const PATIENCE: Duration = Duration::from_secs(2);
/// A large tree is looked through less often: this many times as long as that takes is the least time in between.
const SHARE: u32 = 4;

/// What is remembered of a sandbox from one look to the next.
#[derive(Default)]
struct Memory {
    busy: bool,
    crowded: Option<Instant>,
    disk: u64,
    next_disk: Option<Instant>,
}

/// Looks, for as long as the provider is there.
pub(super) fn watch(provider: &Weak<Shared>) {
    let mut memories: HashMap<String, Memory> = HashMap::new();
    loop {
        std::thread::sleep(PERIOD);
        let Some(shared) = provider.upgrade() else { return };
        let sandboxes = shared.sandboxes();
        drop(shared);
        memories.retain(|key, _| sandboxes.iter().any(|sandbox| sandbox.key == *key));
        for sandbox in sandboxes {
            let Some(running) = sandbox.running() else { continue };
            if sandbox.idle() {
                if let Ok(engine) = engine() {
                    engine.spawn(async move { sandbox.rest().await });
                }
                continue;
            }
            look(&sandbox, &running, memories.entry(sandbox.key.clone()).or_default());
        }
    }
}

fn look(sandbox: &Inner, running: &Arc<Running>, memory: &mut Memory) {
    let all = usage::tree(running.pid);
    // Looked at once more after the last program has ended, for what it has left on the disk.
    let busy = all.len() > 1 || sandbox.in_use();
    if !std::mem::replace(&mut memory.busy, busy) && !busy {
        return;
    }
    let files = sandbox.directory.join("files");
    let Ok(device) = std::fs::metadata(&files).map(|about| about.dev()) else { return };
    let taken = usage::processes(&all, device);

    let mut over = false;
    let most = layout::memory(&sandbox.template);
    if !running.counted && taken.memory + taken.memory_files > most {
        // Much may be shared.
        over = usage::memory(&all, taken.memory_files) > most;
    }
    if taken.threads > layout::PROCESSES / 10 * 9 {
        over |= memory.crowded.get_or_insert_with(Instant::now).elapsed() > CROWDED;
    } else {
        memory.crowded = None;
    }
    if memory.next_disk.is_none_or(|next| next <= Instant::now()) {
        let start = Instant::now();
        // What cannot be looked at has not changed.
        let disk = disk::usage(&files).map_or(memory.disk, |files| files.saturating_add(taken.nameless));
        memory.next_disk = Some(Instant::now() + start.elapsed() * SHARE);
        let full = disk > layout::disk(&sandbox.template);
        sandbox.full.store(full, Ordering::Release);
        // What only takes files away must be able to.
        over |= full && disk > memory.disk;
        memory.disk = disk;
    }
    if over {
        memory.crowded = None;
        kill_all(Arc::clone(running));
    }
}

/// Kills all programs; the guest stays, and those who wait get their exit codes.
fn kill_all(running: Arc<Running>) {
    let Ok(engine) = engine() else { return };
    engine.spawn(async move {
        let killed = tokio::time::timeout(PATIENCE, running.call(&Request::KillAll)).await;
        if !matches!(killed, Ok(Ok(_))) {
            running.kill();
        }
    });
}
