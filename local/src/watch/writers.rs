//! Which programs of a sandbox write to its disk, so that a full disk does not end the others.

use std::collections::HashMap;
use std::fs;
use std::os::fd::OwnedFd;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::budget::Budget;
use super::usage;
use super::verdict::Over;

/// A process counts as a writer if it wrote at least this part of what all wrote: a server that logs a line does not.
const SHARE: u64 = 10;

/// The bytes that each process has written to a disk, including those of its children that have ended.
#[derive(Debug, Default)]
pub(super) struct Written(HashMap<u32, u64>);

impl Written {
    /// Measures again, and returns the processes that have written since the last time. Not the first process, which
    /// is koze's.
    pub(super) fn writers(&mut self, all: &[u32], budget: &Budget) -> Result<Vec<u32>, Over> {
        let mut now = HashMap::new();
        for pid in &all[1..] {
            budget.time()?;
            let io = fs::read_to_string(format!("/proc/{pid}/io")).unwrap_or_default();
            now.insert(*pid, usage::read_field(&io, "write_bytes:"));
        }
        let before = std::mem::replace(&mut self.0, now);
        let grown = |pid: &u32, bytes: &u64| bytes.saturating_sub(before.get(pid).copied().unwrap_or(0));
        let grown: Vec<(u32, u64)> = self.0.iter().map(|(pid, bytes)| (*pid, grown(pid, bytes))).collect();
        let sum: u64 = grown.iter().map(|(_, bytes)| bytes).sum();
        Ok(grown.into_iter().filter(|(_, bytes)| *bytes > sum / SHARE).map(|(pid, _)| pid).collect())
    }
}

/// How many times the processes are listed again, for those that were started while others were killed.
const ROUNDS: u32 = 8;

/// Kills the sessions of `writers`: a script, and all that it started. `all` are the processes of the sandbox, of which the
/// first is koze's.
pub(super) fn kill_sessions(all: &[u32], writers: &[u32], budget: &mut Budget) -> Result<(), Over> {
    let sessions: Vec<u32> = writers.iter().filter_map(|pid| session_id(*pid)).collect();
    let mut listed = all.to_vec();
    for _ in 0..ROUNDS {
        let has_writer = |pid: &u32| session_id(*pid).is_some_and(|session| sessions.contains(&session));
        let writing = listed.iter().skip(1).filter(|pid| has_writer(pid));
        let opened: Vec<(u32, OwnedFd)> =
            writing.filter_map(|pid| Some((*pid, open_process(*pid)?))).collect();
        if opened.is_empty() {
            break;
        }
        // The ID may have become that of another process of the host before it was opened, but not since then.
        listed = usage::process_tree(all[0], budget)?;
        for (pid, process) in opened {
            if listed.contains(&pid) {
                let _ = pidfd_send_signal(process, Signal::KILL);
            }
        }
        // What a process started after it was listed goes on without it.
        listed = usage::process_tree(all[0], budget)?;
    }
    Ok(())
}

fn open_process(pid: u32) -> Option<OwnedFd> {
    let pid = Pid::from_raw(i32::try_from(pid).ok()?)?;
    pidfd_open(pid, PidfdFlags::empty()).ok()
}

/// Returns the ID of the session of a process that has not ended.
fn session_id(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name before it may contain anything, including parentheses. After the state come parent, group and session.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let has_ended = fields.next() == Some("Z");
    if has_ended { None } else { fields.nth(2)?.parse().ok() }
}
