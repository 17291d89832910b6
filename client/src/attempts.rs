//! Connects again after a connection was cut off.

use std::thread::sleep;
use std::time::Duration;

/// How often to connect again without success.
const MAX_ATTEMPTS: u32 = 5;
/// The pause before the first attempt. Each is followed by a longer one.
const PAUSE: Duration = Duration::from_millis(200);

/// Counts the attempts since something was last received.
#[derive(Debug, Clone, Default)]
pub(crate) struct Attempts(u32);

impl Attempts {
    /// Waits before the next attempt. Returns false if there were too many.
    pub(crate) fn wait_for_next(&mut self) -> bool {
        if self.0 == MAX_ATTEMPTS {
            return false;
        }
        sleep(PAUSE * 2_u32.pow(self.0));
        self.0 += 1;
        true
    }

    /// Starts over: something was received.
    pub(crate) fn reset(&mut self) {
        self.0 = 0;
    }
}
