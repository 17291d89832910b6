//! Limits how often an expensive operation runs.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// The minimum interval, as a multiple of the operation's duration.
const SHARE: u32 = 4;

/// The time of the next run.
#[derive(Debug, Default)]
pub(super) struct Pace(Option<Instant>);

impl Pace {
    /// Returns whether it is due.
    pub(super) fn due(&self) -> bool {
        self.0.is_none_or(|next| next <= Instant::now())
    }

    /// Records that it ran, and for how long.
    pub(super) fn took(&mut self, long: Duration) {
        self.0 = Some(Instant::now() + long * SHARE);
    }

    /// Delays it by the given time.
    pub(super) fn wait(&mut self, long: Duration) {
        self.0 = Some(Instant::now() + long);
    }
}

/// Returns the CPU time of this thread.
pub(super) fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let (seconds, nanoseconds) = (u64::try_from(time.tv_sec), u32::try_from(time.tv_nsec));
    Duration::new(seconds.unwrap_or(0), nanoseconds.unwrap_or(0))
}
