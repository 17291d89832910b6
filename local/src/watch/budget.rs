//! Limits the work of one check of a sandbox. The sandbox determines how many descriptors and mappings exist, and must
//! not be able to keep the watch busy.

use std::time::Duration;

use super::pace::thread_time;
use super::verdict::{DESCRIPTORS, Over, TIME};

/// The maximum number of processes and threads per check, well above the kernel's limit for a sandbox.
const TASKS: usize = 4096;

/// The remaining budget.
pub(super) struct Budget {
    tasks: usize,
    descriptors: usize,
    /// The CPU time of this thread at which the budget is used up.
    until: Duration,
}

impl Budget {
    /// The budget of one check.
    pub(super) fn new() -> Self {
        Budget { tasks: TASKS, descriptors: DESCRIPTORS, until: thread_time() + TIME }
    }

    /// An unlimited budget, for the controls of tests.
    pub(super) fn endless() -> Self {
        Budget { tasks: usize::MAX, descriptors: usize::MAX, until: Duration::MAX }
    }

    /// Counts a process or thread.
    pub(super) fn task(&mut self) -> Result<(), Over> {
        self.tasks = self.tasks.checked_sub(1).ok_or(Over::Work)?;
        self.time()
    }

    /// Counts a descriptor.
    pub(super) fn descriptor(&mut self) -> Result<(), Over> {
        self.descriptors = self.descriptors.checked_sub(1).ok_or(Over::Descriptors)?;
        // Reading the time costs about as much as checking a descriptor.
        if self.descriptors.is_multiple_of(64) { self.time() } else { Ok(()) }
    }

    /// Returns an error if the time is used up.
    pub(super) fn time(&self) -> Result<(), Over> {
        if thread_time() < self.until { Ok(()) } else { Err(Over::Work) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends() {
        let mut budget = Budget::new();
        for _ in 0..100 {
            budget.descriptor().unwrap();
        }
        budget.descriptors = 0;
        assert_eq!(budget.descriptor(), Err(Over::Descriptors));
        budget.tasks = 0;
        assert_eq!(budget.task(), Err(Over::Work));
        budget = Budget { until: Duration::ZERO, ..Budget::new() };
        assert_eq!(budget.task(), Err(Over::Work));
    }
}
