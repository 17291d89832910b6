//! A runtime on its own thread. Containers outlive the runtime of the caller, and what the engine's client needs of one.

use std::sync::OnceLock;

use koze_core::error::{Code, Error, Result};
use tokio::runtime::{Builder, Handle};

/// Returns the runtime.
///
/// # Errors
/// [`Code::Unavailable`] if its thread cannot be started.
pub(crate) fn handle() -> Result<&'static Handle> {
    static RUNTIME: OnceLock<Option<Handle>> = OnceLock::new();
    let start = || {
        let runtime = Builder::new_current_thread().enable_all().thread_name("koze-files").build().ok()?;
        let handle = runtime.handle().clone();
        std::thread::Builder::new()
            .name("koze-containers".into())
            .spawn(move || runtime.block_on(std::future::pending::<()>()))
            .ok()?;
        Some(handle)
    };
    let failed = || Error::new(Code::Unavailable, "the system cannot start another thread for koze");
    RUNTIME.get_or_init(start).as_ref().ok_or_else(failed)
}

/// Runs a future to completion, even if the caller stops waiting: a container must not stay half created.
pub(crate) async fn run_to_completion<T: Send + 'static>(
    work: impl Future<Output = Result<T>> + Send + 'static,
) -> Result<T> {
    let panicked = |error: tokio::task::JoinError| {
        let message = "koze failed on this call: its host's log has the reason";
        Error::new(Code::Internal, message).with_source(error)
    };
    handle()?.spawn(work).await.map_err(panicked)?
}
