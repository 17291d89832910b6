//! Work that takes long, in turns: neither the other calls of this program nor another `glob` wait for the end of it, and
//! nothing of it goes on when its caller is gone.

use crate::error::Result;
use crate::sandbox::MaybeSend;

/// How many turns are taken at the same time. Those who wait have theirs in the order in which they came.
#[cfg(not(target_arch = "wasm32"))]
static TURNS: tokio::sync::Semaphore = tokio::sync::Semaphore::const_new(2);

/// Takes one turn, on a thread that nothing else waits for.
#[cfg(not(target_arch = "wasm32"))]
pub(super) async fn take<T: MaybeSend + 'static>(
    turn: impl FnOnce() -> T + MaybeSend + 'static,
) -> Result<T> {
    use crate::error::{Code, Error};

    let failed =
        |error: &dyn std::fmt::Display| Error::new(Code::Internal, format!("`glob` failed: {error}"));
    // Outside of tokio there is one caller, and nobody to wait for it.
    let Ok(runtime) = tokio::runtime::Handle::try_current() else { return Ok(turn()) };
    let permit = TURNS.acquire().await.map_err(|error| failed(&error))?;
    let taken = runtime.spawn_blocking(move || {
        let done = turn();
        drop(permit);
        done
    });
    taken.await.map_err(|error| failed(&error))
}

/// Takes one turn, and lets everything else that is ready go on before the next.
#[cfg(target_arch = "wasm32")]
pub(super) async fn take<T: MaybeSend + 'static>(
    turn: impl FnOnce() -> T + MaybeSend + 'static,
) -> Result<T> {
    let done = turn();
    crate::time::sleep(std::time::Duration::ZERO).await;
    Ok(done)
}
