//! Counts the programs that the kernel has killed because a group was out of memory.

use std::fs;
use std::path::PathBuf;

use koze_guest::kills;

/// The counter of a group.
#[derive(Debug)]
pub(crate) struct Kills {
    file: PathBuf,
    /// The limit of the group in MiB.
    memory_mib: u64,
}

impl Kills {
    pub(super) fn new(file: PathBuf, memory: u64) -> Self {
        Kills { file, memory_mib: memory >> 20 }
    }

    /// Returns how many programs were killed. A counter that cannot be read says none.
    pub(crate) fn count(&self) -> u64 {
        kills::count(&fs::read_to_string(&self.file).unwrap_or_default())
    }

    /// Says why programs were killed.
    pub(crate) fn reason(&self) -> String {
        format!(
            "the kernel killed a program of this sandbox: together, they used more than {} MiB of memory",
            self.memory_mib
        )
    }
}
