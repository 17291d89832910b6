//! How much of what peers send is held in memory, all connections together.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::frame::Broken;

/// The most that is held, in bytes. Of the class, which makes 56 calls at once, come 28 MiB at most that nobody has taken.
const MOST: usize = 64 << 20;

static HELD: AtomicUsize = AtomicUsize::new(0);

/// What is held for one thing. Dropped, it is free again.
#[derive(Debug, Default)]
pub struct Held(usize);

impl Held {
    /// Counts so many bytes more.
    ///
    /// # Errors
    /// Where they are too many: whoever sends them is cut off.
    pub fn more(&mut self, bytes: usize) -> Result<(), Broken> {
        if HELD.fetch_add(bytes, Ordering::Relaxed) + bytes > MOST {
            HELD.fetch_sub(bytes, Ordering::Relaxed);
            return Err(Broken("too much data is waiting to be sent"));
        }
        self.0 += bytes;
        Ok(())
    }

    /// Counts so many fewer.
    pub fn less(&mut self, bytes: usize) {
        let bytes = bytes.min(self.0);
        self.0 -= bytes;
        HELD.fetch_sub(bytes, Ordering::Relaxed);
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.less(self.0);
    }
}
