//! Reads how much memory the programs of a group use.

use std::fs;
use std::path::PathBuf;

/// The memory that cannot be reclaimed without ending programs: the counters of both versions. Cached files are not in it.
const FIELDS: [&str; 4] = ["anon", "rss", "shmem", "kernel"];

/// The counters of a group.
#[derive(Debug)]
pub(crate) struct Memory {
    file: PathBuf,
}

impl Memory {
    pub(super) fn new(file: PathBuf) -> Self {
        Memory { file }
    }

    /// Returns the memory in use in bytes, or `None` if it cannot be read.
    pub(crate) fn used(&self) -> Option<u64> {
        Some(sum_counters(&fs::read_to_string(&self.file).ok()?))
    }
}

fn sum_counters(counters: &str) -> u64 {
    let values = counters.lines().filter_map(|line| {
        let (name, value) = line.split_once(' ')?;
        if FIELDS.contains(&name) { value.trim().parse::<u64>().ok() } else { None }
    });
    values.sum()
}

#[cfg(test)]
mod tests {
    use super::sum_counters;

    #[test]
    fn memory_is_counted_in_both_versions() {
        assert_eq!(sum_counters("anon 5\nfile 70\nkernel 20\nshmem 1\ninactive_file 9\n"), 26);
        assert_eq!(sum_counters("cache 70\nrss 5\nrss_huge 0\nshmem 1\ntotal_rss 5\ntotal_shmem 1\n"), 6);
    }
}
