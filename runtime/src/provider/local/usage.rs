//! What a sandbox takes, as seen from the host.

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// What the processes of a sandbox take.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Processes {
    /// How many threads they have together, the guest's among them.
    pub(super) threads: u64,
    /// Bytes of memory, what several share counted for each.
    pub(super) memory: u64,
    /// Bytes of files that are open and have no name any more; those in memory are counted as memory.
    pub(super) nameless: u64,
}

/// A process and all below it: in a process namespace, that is all there is in it.
pub(super) fn tree(first: u32) -> Vec<u32> {
    let mut all = vec![first];
    let mut next = 0;
    while let Some(pid) = all.get(next) {
        for task in fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten() {
            let children = fs::read_to_string(task.path().join("children")).unwrap_or_default();
            all.extend(children.split_whitespace().filter_map(|pid| pid.parse::<u32>().ok()));
        }
        next += 1;
    }
    all
}

/// What the processes take. `device` is where the sandbox's files lie.
pub(super) fn processes(all: &[u32], device: u64) -> Processes {
    let mut sum = Processes::default();
    let mut seen = HashSet::new();
    for pid in all {
        let Ok(status) = fs::read_to_string(format!("/proc/{pid}/status")) else { continue };
        sum.threads += number(&status, "Threads:");
        let memory =
            ["RssAnon:", "RssShmem:", "VmSwap:", "VmPTE:"].iter().map(|field| number(&status, field));
        sum.memory += memory.sum::<u64>() << 10;
        for descriptor in fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten() {
            let Ok(file) = fs::metadata(descriptor.path()) else { continue };
            if file.is_file() && file.nlink() == 0 && seen.insert((file.dev(), file.ino())) {
                let bytes = file.blocks() << 9;
                *(if file.dev() == device { &mut sum.nameless } else { &mut sum.memory }) += bytes;
            }
        }
    }
    sum
}

/// Bytes of memory, what several share counted once. Takes longer.
pub(super) fn memory(all: &[u32]) -> u64 {
    let each = |pid: &u32| {
        let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
        number(&text, "Pss_Anon:") + number(&text, "Pss_Shmem:") + number(&text, "SwapPss:")
    };
    all.iter().map(each).sum::<u64>() << 10
}

fn number(text: &str, field: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(field));
    line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

/// Bytes on the disk below a directory. Links are not followed; a file with several names counts once.
pub(super) fn disk(directory: &Path) -> u64 {
    let mut seen = HashSet::new();
    let mut sum = 0;
    let mut waiting = vec![directory.to_owned()];
    while let Some(directory) = waiting.pop() {
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            let Ok(about) = entry.metadata() else { continue };
            if about.nlink() < 2 || about.is_dir() || seen.insert(about.ino()) {
                sum += about.blocks() << 9;
            }
            if about.is_dir() {
                waiting.push(entry.path());
            }
        }
    }
    sum
}
