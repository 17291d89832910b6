//! Time, natively on tokio and in a Worker.

#[cfg(target_arch = "wasm32")]
mod timer;

use std::time::Duration;

/// Waits. Natively it needs a tokio runtime with timers.
#[cfg(not(target_arch = "wasm32"))]
pub async fn sleep(time: Duration) {
    tokio::time::sleep(time).await;
}

/// Waits.
#[cfg(target_arch = "wasm32")]
pub async fn sleep(time: Duration) {
    timer::Timer::new(time).await;
}

/// Returns the milliseconds since 1970. In a Worker, time does not advance between two awaits.
#[cfg(not(target_arch = "wasm32"))]
pub fn now() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    millis(since)
}

/// Returns the milliseconds since 1970. In a Worker, time does not advance between two awaits.
#[cfg(target_arch = "wasm32")]
pub fn now() -> u64 {
    // A whole number of milliseconds below 2^53.
    js_sys::Date::now() as u64
}

/// A point in time to measure from.
#[derive(Debug, Clone, Copy)]
pub struct Start(#[cfg(not(target_arch = "wasm32"))] std::time::Instant, #[cfg(target_arch = "wasm32")] u64);

impl Start {
    /// Returns the current time.
    pub fn now() -> Self {
        #[cfg(not(target_arch = "wasm32"))]
        return Start(std::time::Instant::now());
        #[cfg(target_arch = "wasm32")]
        return Start(now());
    }

    /// Returns the elapsed time. In a Worker, time does not advance between two awaits.
    pub fn elapsed(self) -> Duration {
        #[cfg(not(target_arch = "wasm32"))]
        return self.0.elapsed();
        #[cfg(target_arch = "wasm32")]
        return Duration::from_millis(now().saturating_sub(self.0));
    }
}

/// Returns a duration in whole milliseconds.
pub fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
