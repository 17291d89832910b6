//! Why programs of a running sandbox failed: they were killed by koze's watch or by the kernel, or the network policy refused a host.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::cgroup::Kills;
use koze_egress::Refusals;

/// The exit code of a killed program.
const KILLED: i32 = 137;

/// What has been judged in a sandbox.
#[derive(Debug)]
pub(crate) struct Judgements {
    /// How often koze killed its programs for exceeding a limit, and the last reason.
    by_watch: Mutex<(u64, String)>,
    /// What the kernel counts, if a control group limits the memory.
    kills: Option<Kills>,
    /// The last known count of the kernel.
    known: AtomicU64,
    /// The requests that the network policy refused.
    pub(crate) refusals: Arc<Refusals>,
}

/// What had been judged when a program started.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Before {
    by_watch: u64,
    by_kernel: u64,
    refused: usize,
}

impl Judgements {
    pub(crate) fn new(kills: Option<Kills>) -> Self {
        Judgements { by_watch: Mutex::default(), kills, known: AtomicU64::new(0), refusals: Arc::default() }
    }

    /// Records which programs koze is about to kill, and why.
    pub(crate) fn add(&self, why: &str) {
        let mut judged = self.by_watch.lock().unwrap_or_else(PoisonError::into_inner);
        judged.0 += 1;
        why.clone_into(&mut judged.1);
    }

    /// Reads the kernel's count again. Called by the watch, because a program should not wait for that when it starts.
    pub(crate) fn refresh(&self) {
        if let Some(kills) = &self.kills {
            self.known.store(kills.count(), Ordering::Relaxed);
        }
    }

    /// Returns what has been judged so far.
    pub(crate) fn so_far(&self) -> Before {
        let by_watch = self.by_watch.lock().unwrap_or_else(PoisonError::into_inner).0;
        Before { by_watch, by_kernel: self.known.load(Ordering::Relaxed), refused: self.refusals.count() }
    }

    /// Returns why a program with this exit code failed, if programs of the sandbox were killed after `before`.
    pub(crate) fn reason(&self, before: Before, exit_code: i32) -> Option<String> {
        if exit_code == KILLED
            && let Some(why) = self.by_watch_since(before)
        {
            return Some(why);
        }
        if exit_code == 0 {
            return None;
        }
        self.by_kernel_since(before).or_else(|| self.refusals.describe_after(before.refused))
    }

    /// Returns why the kernel killed a program after `before`. Of a script, it may have killed only one program.
    fn by_kernel_since(&self, before: Before) -> Option<String> {
        let kills = self.kills.as_ref()?;
        self.refresh();
        (self.known.load(Ordering::Relaxed) > before.by_kernel).then(|| kills.reason())
    }

    /// Returns which programs koze killed after `before`, and why.
    pub(crate) fn by_watch_since(&self, before: Before) -> Option<String> {
        let judged = self.by_watch.lock().unwrap_or_else(PoisonError::into_inner);
        (judged.0 > before.by_watch).then(|| judged.1.clone())
    }
}
