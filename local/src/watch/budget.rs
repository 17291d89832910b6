//! How much work one look at a sandbox may be. A sandbox decides how many descriptors and mappings there are to look at, and
//! must not be able to keep the watch busy with them.

use std::time::Duration;

use super::pace::thread_time;
use super::verdict::Over;

/// The most processes and threads of one look, well above what the kernel lets a sandbox have.
const TASKS: usize = 4096;
/// The most descriptors, of all processes together.
pub(super) const DESCRIPTORS: usize = 65_536;
/// The most time of a processor.
pub(super) const TIME: Duration = Duration::from_millis(500);

/// What is left of it.
pub(super) struct Budget {
    tasks: usize,
    descriptors: usize,
    /// When this thread has run for as long as it may.
    until: Duration,
}

impl Budget {
    /// That of one look.
    pub(super) fn new() -> Self {
        Budget { tasks: TASKS, descriptors: DESCRIPTORS, until: thread_time() + TIME }
    }

    /// One without an end, for the control runs of tests.
    pub(super) fn endless() -> Self {
        Budget { tasks: usize::MAX, descriptors: usize::MAX, until: Duration::MAX }
    }

    /// A process or thread is looked at.
    pub(super) fn task(&mut self) -> Result<(), Over> {
        self.tasks = self.tasks.checked_sub(1).ok_or(Over::Work)?;
        self.time()
    }

    /// A descriptor is looked at.
    pub(super) fn descriptor(&mut self) -> Result<(), Over> {
        self.descriptors = self.descriptors.checked_sub(1).ok_or(Over::Descriptors)?;
        // Asking for the time costs about as much as a descriptor.
        if self.descriptors.is_multiple_of(64) { self.time() } else { Ok(()) }
    }

    /// Whether time is left.
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
