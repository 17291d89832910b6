//! The limits of a sandbox.

use koze_core::provider::Settings;

/// The maximum number of processes and threads of a sandbox.
pub(crate) const PROCESSES: u64 = 512;

/// Returns the disk limit of a sandbox in bytes.
pub(crate) fn disk_limit(settings: &Settings) -> u64 {
    u64::from(settings.profile.size.disk_mb) * 1_000_000
}

/// Returns the maximum number of directory entries of a sandbox. Each counts at least 4 KiB of disk space, except
/// further names of a file.
pub(crate) fn entry_limit(settings: &Settings) -> u64 {
    disk_limit(settings) / 2048 + 65_536
}

/// Returns the memory limit of a sandbox in bytes.
pub(crate) fn memory_limit(settings: &Settings) -> u64 {
    u64::from(settings.profile.size.memory_mib) << 20
}

/// Returns the CPU limit of a sandbox in thousandths of a processor.
pub(crate) fn processor_limit(settings: &Settings) -> u64 {
    settings.profile.size.processors() * 1000
}

/// Returns how many threads a program should use if its CPU is limited, for the variable that `nproc` and OpenMP read. The affinity mask
/// is not changed: it would bind a sandbox to fixed processors, which others may keep busy while the rest is idle.
pub(crate) fn thread_count(settings: &Settings) -> u64 {
    let here = std::thread::available_parallelism().map_or(1, |all| all.get() as u64);
    settings.profile.size.processors().min(here)
}
