//! Waiting, where there is tokio and where there is not.

use std::time::Duration;

/// Waits. Natively inside a runtime of tokio's, with its timers on.
#[cfg(not(target_arch = "wasm32"))]
pub(crate) async fn sleep(time: Duration) {
    tokio::time::sleep(time).await;
}

/// Waits.
#[cfg(target_arch = "wasm32")]
pub(crate) async fn sleep(time: Duration) {
    worker::Delay::from(time).await;
}
