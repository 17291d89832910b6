//! One running sandbox, and what is remembered of it from one look to the next.

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
use super::verdict::Over;
use crate::launch::Weakness;
use crate::running::Running;
use crate::sandbox::Inner;
use crate::{disk, layout};

/// How long a sandbox may have nearly all the processes it may have: a fork bomb ends no other way.
const CROWDED: Duration = Duration::from_secs(1);
/// How many threads of a sandbox may run for each processor of the machine, and in how many looks in turn there may be more.
const EACH: u64 = 8;
const LOOKS: u32 = 10;
/// How long the guest may take to kill what there is; then the whole sandbox ends.
const PATIENCE: Duration = Duration::from_secs(2);
/// How many times the limit processes may map where they share it: how much of it is shared is read page by page.
pub(super) const SHARED: u64 = 16;
/// How long after a tree that is too large to be counted the next look is: what takes it away gets on meanwhile.
const CLEARING: Duration = Duration::from_secs(2);

/// See the module.
#[derive(Default)]
pub(super) struct Follower {
    busy: bool,
    crowded: Option<Instant>,
    /// How many looks in turn have found more threads running than there are processors for.
    spinning: u32,
    files: Files,
    /// Bytes that sockets hold.
    sockets: u64,
    files_pace: Pace,
    memory_pace: Pace,
    disk: u64,
    disk_pace: Pace,
    walk: Option<JoinHandle<Walked>>,
    killing: Option<Killing>,
}

/// What became of a walk through the files.
struct Walked {
    bytes: io::Result<u64>,
    took: Duration,
}

/// The guest was told to kill all programs.
struct Killing {
    since: Instant,
    programs: Vec<u32>,
    why: String,
    answer: Option<oneshot::Receiver<Received<Answer>>>,
}

impl Follower {
    /// Looks at the sandbox, and kills its programs where they have too much.
    pub(super) fn look(&mut self, sandbox: &Inner, running: &Arc<Running>) {
        let mut budget = if sandbox.weak.has(&Weakness::Budget) { Budget::endless() } else { Budget::new() };
        let (programs, over) = match usage::tree(running.pid, &mut budget) {
            Ok(all) => {
                // Looked at once more after the last program has ended, for what it has left on the disk.
                let busy = all.len() > 1 || sandbox.in_use() || self.walk.is_some();
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
        // First of all, for it says whether anything may be written.
        let disk = self.disk(sandbox, &files);
        let taken = usage::processes(all, budget)?;
        if self.files_pace.due() {
            let start = thread_time();
            self.files = usage::files(all, device, budget)?;
            if !sandbox.weak.has(&Weakness::Sockets)
                && let Some(sockets) = &running.sockets
            {
                self.sockets = sockets::memory(sockets, budget)?;
            }
            self.files_pace.took(thread_time().saturating_sub(start));
        }
        let most = layout::memory(&sandbox.settings);
        // The kernel does not count all of it, also where it counts.
        if self.sockets > most {
            return Err(Over::Sockets(most >> 20));
        }
        let sum = taken.memory + self.files.in_memory + self.sockets;
        if !running.counted && sum > most {
            let mib = most >> 20;
            if sum / SHARED > most {
                return Err(Over::Shared(mib));
            }
            // Much may be shared.
            if self.memory_pace.due() {
                let start = thread_time();
                let exact = usage::memory(all, self.files.in_memory, budget)? + self.sockets;
                self.memory_pace.took(thread_time().saturating_sub(start));
                if exact > most {
                    return Err(Over::Memory(mib));
                }
            }
        }
        if !running.limited && !sandbox.weak.has(&Weakness::Processors) {
            self.processors(all, taken.threads, budget)?;
        }
        if taken.threads <= layout::PROCESSES / 10 * 9 {
            self.crowded = None;
        } else if self.crowded.get_or_insert_with(Instant::now).elapsed() > CROWDED {
            return Err(Over::Crowd);
        }
        disk
    }

    /// Where the kernel does not limit the share of a sandbox, many threads would take nearly all of the processors from the
    /// host.
    fn processors(&mut self, all: &[u32], threads: u64, budget: &mut Budget) -> Result<(), Over> {
        let here = std::thread::available_parallelism().map_or(1, |all| all.get() as u64);
        let many = here * EACH;
        if threads <= many || usage::runnable(all, budget)? <= many {
            self.spinning = 0;
            return Ok(());
        }
        self.spinning += 1;
        // The guest, which comes first, has to answer.
        if self.spinning >= LOOKS { usage::step_back(&all[1..], budget) } else { Ok(()) }
    }

    /// What the files take, summed up by a thread of its own: a large tree takes longer than memory may go unwatched.
    fn disk(&mut self, sandbox: &Inner, files: &Path) -> Result<(), Over> {
        let (most, entries) = (layout::disk(&sandbox.settings), layout::entries(&sandbox.settings));
        let walked = match self.walk.take_if(|walk| walk.is_finished() || sandbox.weak.has(&Weakness::Budget))
        {
            // One that panicked has found nothing.
            Some(walk) => walk.join().ok(),
            None if self.walk.is_none() && self.disk_pace.due() => {
                let (files, walks) = (files.to_owned(), Arc::clone(&sandbox.walks));
                let walk = move || {
                    let start = Instant::now();
                    let bytes = walks.usage(&files, entries);
                    Walked { bytes, took: start.elapsed() }
                };
                // Where the system has no thread left, the next look tries again.
                self.walk = std::thread::Builder::new().name("koze-disk".into()).spawn(walk).ok();
                None
            }
            None => None,
        };
        let Some(walked) = walked else { return Ok(()) };
        // What cannot be looked at has not changed.
        let now = walked.bytes.map_or(self.disk, |bytes| bytes.saturating_add(self.files.on_disk));
        self.disk_pace.took(walked.took);
        let before = std::mem::replace(&mut self.disk, now);
        sandbox.full.store(now > most, Ordering::Release);
        if now == disk::TOO_LARGE {
            // Whether it grows cannot be told.
            self.disk_pace.wait(CLEARING.max(walked.took));
            return Err(Over::Tree(entries));
        }
        // What only takes files away must be able to.
        if now > most && now > before { Err(Over::Disk(most / 1_000_000)) } else { Ok(()) }
    }

    /// Kills all programs; the guest stays, and those who wait get their exit codes.
    fn kill(&mut self, running: &Arc<Running>, programs: Vec<u32>, over: Over) {
        if self.killing.is_some() {
            return;
        }
        let why = over.to_string();
        running.judge(&why);
        let answer = running.kill_programs().ok();
        self.killing = Some(Killing { since: Instant::now(), programs, why, answer });
    }

    /// Ends the sandbox where its guest does not do what it was told. Whether it does is seen by its programs: the answer may
    /// lie unread while this program is busy.
    fn insist(&mut self, running: &Running, now: &[u32]) {
        let Some(killing) = &mut self.killing else { return };
        if killing.answer.as_mut().is_some_and(|answer| answer.try_recv().is_ok()) {
            self.killing = None;
        } else if killing.since.elapsed() > PATIENCE {
            let first = running.pid;
            let left = |pid: &u32| *pid != first && now.contains(pid);
            // Where they could not be counted, some may be left.
            let uncounted = killing.programs.is_empty() || now.is_empty();
            if uncounted || killing.programs.iter().any(left) {
                running.end_for(&killing.why);
            }
            self.killing = None;
        }
    }
}
