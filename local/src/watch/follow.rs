//! Follows one running sandbox, and keeps state between checks.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use koze_guest::channel::Received;
use koze_guest::message::Answer;
use tokio::sync::oneshot;

use super::budget::Budget;
use super::pace::{Pace, thread_time};
use super::sockets;
use super::usage::{self, Files};
use super::verdict::{Over, SHARED};
use super::writers::{self, Written};
use crate::cgroup::Memory;
use crate::host::disk;
use crate::sandbox::inner::Inner;
use crate::sandbox::limits;
use crate::sandbox::running::Running;
use crate::weakness::Weakness;

/// How long a sandbox may be close to its process limit: a fork bomb ends no other way.
const CROWDED: Duration = Duration::from_secs(1);
/// How many runnable threads per processor a sandbox may have, and in how many consecutive checks it may exceed that.
const EACH: u64 = 8;
const LOOKS: u32 = 10;
/// How long the guest may take to kill all programs. After that the whole sandbox is killed.
const KILL_TIMEOUT: Duration = Duration::from_secs(2);
/// In how many consecutive measurements of a full disk that grows only its writers are killed.
const PATIENCE: u32 = 4;
/// How long to wait after a tree was too large to measure, so that a cleanup can make progress.
const CLEARING: Duration = Duration::from_secs(2);

/// How long after a call a sandbox counts as in use: at least one check sees it.
const IN_USE: Duration = Duration::from_millis(300);

/// The state of a followed sandbox.
#[derive(Default)]
pub(super) struct Follower {
    busy: bool,
    crowded: Option<Instant>,
    /// In how many consecutive checks more threads were runnable than allowed.
    spinning: u32,
    files: Files,
    /// The memory of its sockets in bytes.
    sockets: u64,
    /// The memory of its programs in bytes, measured exactly, if the estimate exceeds its limit.
    exact: Option<u64>,
    files_pace: Pace,
    memory_pace: Pace,
    disk: u64,
    disk_pace: Pace,
    walk: Option<JoinHandle<Walked>>,
    written: Written,
    /// The programs that wrote between the last two measurements of the disk.
    writers: Vec<u32>,
    /// In how many consecutive measurements the disk was too full, and grew.
    growths: u32,
    killing: Option<Killing>,
}

/// The result of a walk through the files.
struct Walked {
    bytes: io::Result<u64>,
    took: Duration,
}

/// A request to the guest to kill all programs.
struct Killing {
    since: Instant,
    programs: Vec<u32>,
    why: String,
    answer: Option<oneshot::Receiver<Received<Answer>>>,
}

impl Follower {
    /// Checks the sandbox, and kills its programs if they exceed a limit.
    pub(super) fn look(&mut self, sandbox: &Inner, running: &Arc<Running>) {
        let mut budget = if sandbox.weak.has(&Weakness::Budget) { Budget::endless() } else { Budget::new() };
        let (programs, over) = match usage::process_tree(running.pid, &mut budget) {
            Ok(all) => {
                // One more check follows the end of the last program, for the files that it left.
                let busy = all.len() > 1 || sandbox.in_use(IN_USE) || self.walk.is_some();
                let was_busy = std::mem::replace(&mut self.busy, busy);
                if !was_busy && !busy && self.killing.is_none() {
                    return;
                }
                let judged = self.judge(sandbox, running, &all, &mut budget);
                (all, judged)
            }
            Err(over) => (Vec::new(), Err(over)),
        };
        self.insist(running, &programs);
        if let Err(over) = over {
            let is_disk = matches!(over, Over::Disk(_));
            if is_disk && self.stop_writers(running, &programs, over, &mut budget) {
                return;
            }
            self.crowded = None;
            self.kill(running, programs, over);
        }
    }

    fn judge(
        &mut self,
        sandbox: &Inner,
        running: &Running,
        all: &[u32],
        budget: &mut Budget,
    ) -> Result<(), Over> {
        let files = sandbox.directory.join("files");
        let Ok(device) = fs::metadata(&files).map(|about| about.dev()) else { return Ok(()) };
        // The disk comes first, because it determines whether writing is allowed.
        let disk = self.disk(sandbox, &files, all, budget)?;
        let taken = usage::measure_processes(all, budget)?;
        if self.files_pace.due() {
            let start = thread_time();
            self.files = usage::measure_files(all, device, budget)?;
            if !sandbox.weak.has(&Weakness::Sockets) {
                self.sockets = sockets::socket_memory(running.sockets.as_ref(), running.pid, budget)?;
            }
            self.files_pace.took(thread_time().saturating_sub(start));
        }
        running.judgements.refresh();
        let most = limits::memory_limit(&sandbox.settings);
        // Even with a control group, the kernel does not account for all of it.
        if self.sockets > most {
            return Err(Over::Sockets(most >> 20));
        }
        let sum = taken.memory + self.files.in_memory + self.sockets;
        if running.counted || sum <= most {
            self.exact = None;
        } else {
            let mib = most >> 20;
            if sum / SHARED > most {
                return Err(Over::Shared(mib));
            }
            // Much of it may be shared.
            if self.memory_pace.due() {
                let start = thread_time();
                let exact = usage::measure_memory(all, self.files.in_memory, budget)? + self.sockets;
                self.memory_pace.took(thread_time().saturating_sub(start));
                self.exact = Some(exact);
                if exact > most {
                    return Err(Over::Memory(mib));
                }
            }
        }
        if let Some(memory) = &running.memory {
            let counted = running.group_memory.as_ref().and_then(Memory::used);
            memory.show(most, counted.or(self.exact).unwrap_or(sum));
        }
        if !running.limited && !sandbox.weak.has(&Weakness::Processors) {
            self.processors(all, taken.threads, budget)?;
        }
        if taken.threads <= limits::PROCESSES / 10 * 9 {
            self.crowded = None;
        } else if self.crowded.get_or_insert_with(Instant::now).elapsed() > CROWDED {
            return Err(Over::Crowd);
        }
        disk.map_or(Ok(()), Err)
    }

    /// Limits runnable threads. If the kernel does not limit a sandbox's CPU share, many threads would starve the host.
    fn processors(&mut self, all: &[u32], threads: u64, budget: &mut Budget) -> Result<(), Over> {
        let here = std::thread::available_parallelism().map_or(1, |all| all.get() as u64);
        let many = here * EACH;
        if threads <= many || usage::count_runnable(all, budget)? <= many {
            self.spinning = 0;
            return Ok(());
        }
        self.spinning += 1;
        // The guest is the first process, and must stay responsive.
        if self.spinning >= LOOKS { usage::step_back(&all[1..], budget) } else { Ok(()) }
    }

    /// Checks the disk usage. A separate thread measures it, because a large tree would delay the memory checks.
    fn disk(
        &mut self,
        sandbox: &Inner,
        files: &Path,
        all: &[u32],
        budget: &Budget,
    ) -> Result<Option<Over>, Over> {
        let (most, entries) = (limits::disk_limit(&sandbox.settings), limits::entry_limit(&sandbox.settings));
        let walked = match self.walk.take_if(|walk| walk.is_finished() || sandbox.weak.has(&Weakness::Budget))
        {
            // A panicked walk has no result.
            Some(walk) => walk.join().ok(),
            None if self.walk.is_none() && self.disk_pace.due() => {
                let (files, walks) = (files.to_owned(), Arc::clone(&sandbox.walks));
                let walk = move || {
                    let start = Instant::now();
                    let bytes = walks.usage(&files, entries);
                    Walked { bytes, took: start.elapsed() }
                };
                // If no thread can be created, the next check retries.
                self.walk = std::thread::Builder::new().name("koze-disk".into()).spawn(walk).ok();
                None
            }
            None => None,
        };
        let Some(walked) = walked else { return Ok(None) };
        self.writers = self.written.writers(all, budget)?;
        // If measuring fails, the previous value counts.
        let now = walked.bytes.map_or(self.disk, |bytes| bytes.saturating_add(self.files.on_disk));
        self.disk_pace.took(walked.took);
        sandbox.disk_used.store(now, Ordering::Relaxed);
        let before = std::mem::replace(&mut self.disk, now);
        sandbox.full.store(now > most, Ordering::Release);
        if now == disk::TOO_LARGE {
            // It is unknown whether the tree grows.
            self.disk_pace.wait(CLEARING.max(walked.took));
            return Ok(Some(Over::Tree(entries)));
        }
        // Programs that only remove files must be able to continue.
        let is_growing = now > most && now > before;
        self.growths = if is_growing { self.growths + 1 } else { 0 };
        Ok(is_growing.then_some(Over::Disk(most / 1_000_000)))
    }

    /// Kills only the programs that write to the disk. Returns false if all have to be killed: nobody is known to write, or
    /// others went on writing each time.
    fn stop_writers(&self, running: &Running, programs: &[u32], over: Over, budget: &mut Budget) -> bool {
        if self.growths > PATIENCE {
            return false;
        }
        if self.writers.is_empty() {
            // What was killed the last time may have written after that measurement.
            return self.growths > 1;
        }
        running
            .judgements
            .add(&format!("programs of this sandbox that wrote to its disk were killed: {over}"));
        writers::kill_sessions(programs, &self.writers, budget).is_ok()
    }

    /// Kills all programs. The guest stays, so that callers get their exit codes.
    fn kill(&mut self, running: &Arc<Running>, programs: Vec<u32>, over: Over) {
        if self.killing.is_some() {
            return;
        }
        let why = over.to_string();
        running.judgements.add(&format!("all programs of this sandbox were killed: {why}"));
        let answer = running.kill_programs().ok();
        self.killing = Some(Killing { since: Instant::now(), programs, why, answer });
    }

    /// Kills the sandbox if its guest does not kill the programs. This is judged by the processes, because the guest's
    /// answer may be delayed while this program is busy.
    fn insist(&mut self, running: &Running, now: &[u32]) {
        let Some(killing) = &mut self.killing else { return };
        if killing.answer.as_mut().is_some_and(|answer| answer.try_recv().is_ok()) {
            self.killing = None;
        } else if killing.since.elapsed() > KILL_TIMEOUT {
            let first = running.pid;
            let left = |pid: &u32| *pid != first && now.contains(pid);
            // If they could not be counted, some may remain.
            let uncounted = killing.programs.is_empty() || now.is_empty();
            if uncounted || killing.programs.iter().any(left) {
                running.end_for(&killing.why);
            }
            self.killing = None;
        }
    }
}
