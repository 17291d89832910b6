//! Limits the memory for data that peers have sent, over all connections.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::frame::Violation;

/// The limit in bytes. The class makes 56 calls at once, which buffer at most 28 MiB.
const MAX_BYTES: usize = 64 << 20;

static HELD: AtomicUsize = AtomicUsize::new(0);

/// The share of one holder. Dropping it releases the memory.
#[derive(Debug, Default)]
pub struct Held(usize);

impl Held {
    /// Adds bytes.
    ///
    /// # Errors
    /// If the limit is exceeded. The connection that sent them is then closed.
    pub fn more(&mut self, bytes: usize) -> Result<(), Violation> {
        if HELD.fetch_add(bytes, Ordering::Relaxed) + bytes > MAX_BYTES {
            HELD.fetch_sub(bytes, Ordering::Relaxed);
            return Err(Violation("too much data is waiting to be sent"));
        }
        self.0 += bytes;
        Ok(())
    }

    /// Releases bytes.
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
