//! Reads how many programs the kernel has killed because the memory of a control group was full.

/// Returns the number in the counters of a group: the file `memory.events` of version 2, or `memory.oom_control` of version 1.
/// Counters without it say that there are none.
pub fn count(counters: &str) -> u64 {
    let count = counters.lines().find_map(|line| line.strip_prefix("oom_kill "));
    count.and_then(|count| count.trim().parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kills_are_counted_in_both_versions() {
        for counters in [
            "low 0\nhigh 0\nmax 31\noom 2\noom_kill 12\noom_group_kill 0\n",
            "oom_kill_disable 0\nunder_oom 0\noom_kill 12\n",
        ] {
            assert_eq!(count(counters), 12);
        }
        assert_eq!(count("low 0\n"), 0);
    }
}
