//! Splits long work into turns, so that neither other calls nor other searches wait for its end, and it stops when its
//! caller is gone.

use crate::error::Result;
use crate::maybe_send::MaybeSend;

/// The number of concurrent turns. Waiting searches take turns in order of arrival.
#[cfg(not(target_arch = "wasm32"))]
static TURNS: tokio::sync::Semaphore = tokio::sync::Semaphore::const_new(2);

/// Runs one turn on a separate thread.
#[cfg(not(target_arch = "wasm32"))]
pub(crate) async fn take<T: MaybeSend + 'static>(
    turn: impl FnOnce() -> T + MaybeSend + 'static,
) -> Result<T> {
    use crate::error::{Code, Error};

    let failed =
        |error: &dyn std::fmt::Display| Error::new(Code::Internal, format!("`glob` failed: {error}"));
    // Outside of tokio there is only one caller.
    let Ok(runtime) = tokio::runtime::Handle::try_current() else { return Ok(turn()) };
    let permit = TURNS.acquire().await.map_err(|error| failed(&error))?;
    let taken = runtime.spawn_blocking(move || {
        let done = turn();
        drop(permit);
        done
    });
    taken.await.map_err(|error| failed(&error))
}

/// Runs one turn, then lets other ready tasks run.
#[cfg(target_arch = "wasm32")]
pub(crate) async fn take<T: MaybeSend + 'static>(
    turn: impl FnOnce() -> T + MaybeSend + 'static,
) -> Result<T> {
    let done = turn();
    crate::time::sleep(std::time::Duration::ZERO).await;
    Ok(done)
}
