//! Measures from the host what the programs of a sandbox use.

use std::collections::HashSet;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};

use super::budget::Budget;
use super::verdict::Over;

/// The lowest scheduling priority.
const LAST: i32 = 19;

/// The usage of a sandbox's processes.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Processes {
    /// The number of threads, including the guest's.
    pub(super) threads: u64,
    /// The resident memory in bytes; shared memory counts once per process.
    pub(super) memory: u64,
}

/// The size of open files that have been deleted.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Files {
    /// Bytes on the disk.
    pub(super) on_disk: u64,
    /// Bytes in memory.
    pub(super) in_memory: u64,
}

/// Returns a process and its descendants. For the first process of a PID namespace, these are all processes in it.
pub(super) fn process_tree(first: u32, budget: &mut Budget) -> Result<Vec<u32>, Over> {
    let mut all = vec![first];
    let mut next = 0;
    while let Some(pid) = all.get(next) {
        for task in fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten() {
            budget.task()?;
            let children = fs::read_to_string(task.path().join("children")).unwrap_or_default();
            all.extend(children.split_whitespace().filter_map(|pid| pid.parse::<u32>().ok()));
        }
        next += 1;
    }
    Ok(all)
}

/// Measures threads and memory, without open files.
pub(super) fn measure_processes(all: &[u32], budget: &mut Budget) -> Result<Processes, Over> {
    let mut sum = Processes::default();
    for pid in all {
        budget.time()?;
        let Ok(status) = fs::read_to_string(format!("/proc/{pid}/status")) else { continue };
        sum.threads += read_field(&status, "Threads:");
        sum.memory += resident_bytes(&status);
    }
    Ok(sum)
}

/// Returns the number of runnable threads.
pub(super) fn count_runnable(all: &[u32], budget: &mut Budget) -> Result<u64, Over> {
    let mut sum = 0;
    for thread in thread_directories(all) {
        budget.task()?;
        let stat = fs::read_to_string(thread.join("stat")).unwrap_or_default();
        // The name before it may contain anything, including parentheses.
        sum += u64::from(stat.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with('R')));
    }
    Ok(sum)
}

/// Gives processes and their future children the lowest priority. The scheduler may treat a session as one unit, so its
/// group gets the lowest priority too.
pub(super) fn step_back(all: &[u32], budget: &mut Budget) -> Result<(), Over> {
    for thread in thread_directories(all) {
        budget.task()?;
        let number = thread.file_name().and_then(|name| name.to_str()?.parse().ok()).and_then(Pid::from_raw);
        // Without a number this would change the priority of this process.
        if let Some(number) = number {
            let _ = rustix::process::setpriority_process(Some(number), LAST);
        }
    }
    for pid in all {
        let _ = fs::write(format!("/proc/{pid}/autogroup"), LAST.to_string());
    }
    Ok(())
}

/// Returns the `/proc` directories of all threads.
fn thread_directories(all: &[u32]) -> impl Iterator<Item = PathBuf> {
    let below = |pid: &u32| fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    all.iter().flat_map(below).map(|thread| thread.path())
}

/// Measures open files that have been deleted. `device` is that of the sandbox's own files.
pub(super) fn measure_files(all: &[u32], device: u64, budget: &mut Budget) -> Result<Files, Over> {
    let (mut sum, mut seen) = (Files::default(), HashSet::new());
    let mut add = |file: &Metadata| {
        if file.is_file() && file.nlink() == 0 && seen.insert((file.dev(), file.ino())) {
            let bytes = file.blocks() << 9;
            *(if file.dev() == device { &mut sum.on_disk } else { &mut sum.in_memory }) += bytes;
        }
    };
    for pid in all {
        match fs::read_dir(format!("/proc/{pid}/fd")) {
            Ok(descriptors) => {
                for descriptor in descriptors.flatten() {
                    budget.descriptor()?;
                    if let Ok(file) = fs::metadata(descriptor.path()) {
                        add(&file);
                    }
                }
            }
            // A non-dumpable process hides its descriptors from an unprivileged user.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                measure_hidden(*pid, budget, &mut add)?;
            }
            // It has exited.
            Err(_) => {}
        }
    }
    Ok(sum)
}

/// The same for a process whose descriptors cannot be listed: duplicates each possible descriptor. The first process of
/// a sandbox denies this, and holds no descriptors of programs.
fn measure_hidden(pid: u32, budget: &mut Budget, add: &mut impl FnMut(&Metadata)) -> Result<(), Over> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let raw = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let Some(Ok(process)) = raw.map(|pid| pidfd_open(pid, PidfdFlags::empty())) else { return Ok(()) };
    for number in 0..i32::try_from(read_field(&status, "FDSize:")).unwrap_or(i32::MAX) {
        budget.descriptor()?;
        match pidfd_getfd(&process, number, PidfdGetfdFlags::empty()) {
            Ok(descriptor) => {
                if let Ok(file) = fs::File::from(descriptor).metadata() {
                    add(&file);
                }
            }
            Err(rustix::io::Errno::PERM) => return Ok(()),
            Err(_) => {}
        }
    }
    Ok(())
}

/// Bytes of memory, what several share counted once. Takes longer. A file in memory that is open and mapped counts once,
/// so of two files, one open alone and one mapped alone, the smaller is overlooked.
pub(super) fn measure_memory(all: &[u32], memory_files: u64, budget: &mut Budget) -> Result<u64, Over> {
    let (mut private, mut shared) = (0, 0);
    for pid in all {
        budget.time()?;
        match fs::read_to_string(format!("/proc/{pid}/smaps_rollup")) {
            Ok(text) => {
                private += (read_field(&text, "Pss_Anon:") + read_field(&text, "SwapPss:")) << 10;
                shared += read_field(&text, "Pss_Shmem:") << 10;
            }
            // If the shared part is unknown, the whole mapping counts.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                private +=
                    resident_bytes(&fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default());
            }
            Err(_) => {}
        }
    }
    Ok(private + memory_files.max(shared))
}

/// Bytes of memory in a process's status.
fn resident_bytes(status: &str) -> u64 {
    let memory = ["RssAnon:", "RssShmem:", "VmSwap:", "VmPTE:"].iter().map(|field| read_field(status, field));
    memory.sum::<u64>() << 10
}

/// Returns the number after a field's name in a file of `/proc`.
pub(super) fn read_field(text: &str, field: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(field));
    line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}
