//! What a sandbox takes, as seen from the host.

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::MetadataExt;

/// What the processes of a sandbox take.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Processes {
    /// How many threads they have together, the guest's among them.
    pub(super) threads: u64,
    /// Bytes of memory, what several share counted for each.
    pub(super) memory: u64,
    /// Bytes of files that are open and have no name any more, on the disk.
    pub(super) nameless: u64,
    /// The same in memory.
    pub(super) memory_files: u64,
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
                *(if file.dev() == device { &mut sum.nameless } else { &mut sum.memory_files }) += bytes;
            }
        }
    }
    sum
}

/// Bytes of memory, what several share counted once. Takes longer. A file in memory that is open and mapped counts once,
/// so of two files, one open alone and one mapped alone, the smaller is overlooked.
pub(super) fn memory(all: &[u32], memory_files: u64) -> u64 {
    let (mut private, mut shared) = (0, 0);
    for pid in all {
        let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
        private += number(&text, "Pss_Anon:") + number(&text, "SwapPss:");
        shared += number(&text, "Pss_Shmem:");
    }
    (private << 10) + memory_files.max(shared << 10)
}

fn number(text: &str, field: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(field));
    line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}
