//! Tells whether the kernel has killed programs because the container's memory was full.

use std::fs::File;
use std::os::unix::fs::FileExt;

use crate::kills;

/// Where the kernel counts such programs, in control groups of version 2 and 1, as containers see their own.
const COUNTERS: [&str; 2] = ["/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control"];
/// More than the counters have.
const LENGTH: usize = 1024;

/// Follows the line of a program that such a kill explains.
pub(super) const REASON: &str = "\nkoze: the kernel killed a program of this sandbox: together, its programs used more memory than the container has\n";

/// The counter of the programs that the kernel killed.
pub(super) struct Kills(Option<File>);

impl Kills {
    /// Opens the counter. Without one, [`count`](Self::count) returns zero.
    pub(super) fn open() -> Self {
        Kills(COUNTERS.iter().find_map(|path| File::open(path).ok()))
    }

    /// Returns how many programs were killed.
    pub(super) fn count(&self) -> u64 {
        let mut counters = [0; LENGTH];
        let read = self.0.as_ref().and_then(|file| file.read_at(&mut counters, 0).ok());
        let text = std::str::from_utf8(&counters[..read.unwrap_or(0)]).unwrap_or_default();
        kills::count(text)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn the_counter_is_read_again() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"oom 2\noom_kill 12\n").unwrap();
        let kills = Kills(Some(file));
        assert_eq!((kills.count(), kills.count()), (12, 12));
        assert_eq!(Kills(None).count(), 0);
    }
}
