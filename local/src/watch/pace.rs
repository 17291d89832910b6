//! How often something that costs is done.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// This many times as long as it takes is the least time between two.
const SHARE: u32 = 4;

/// When something is done the next time.
#[derive(Debug, Default)]
pub(super) struct Pace(Option<Instant>);

impl Pace {
    /// Whether it is time.
    pub(super) fn due(&self) -> bool {
        self.0.is_none_or(|next| next <= Instant::now())
    }

    /// It was done now, and took so long.
    pub(super) fn took(&mut self, long: Duration) {
        self.0 = Some(Instant::now() + long * SHARE);
    }

    /// It is not done before so much time has passed.
    pub(super) fn wait(&mut self, long: Duration) {
        self.0 = Some(Instant::now() + long);
    }
}

/// How long this thread has run, apart from how busy the machine is.
pub(super) fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let (seconds, nanoseconds) = (u64::try_from(time.tv_sec), u32::try_from(time.tv_nsec));
    Duration::new(seconds.unwrap_or(0), nanoseconds.unwrap_or(0))
}
