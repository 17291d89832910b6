//! A runtime on its own thread. Sandboxes outlive the runtime of the caller: each test function has its own.

pub(crate) mod ready;

use std::sync::OnceLock;

use tokio::runtime::{Builder, Handle};
use tokio::task::JoinSet;

use crate::errors::gone_error;
use koze_core::error::{Code, Error, Result};

/// Returns the runtime.
pub(super) fn engine() -> Result<&'static Handle> {
    static ENGINE: OnceLock<Option<Handle>> = OnceLock::new();
    ENGINE
        .get_or_init(|| {
            let runtime =
                Builder::new_current_thread().enable_all().thread_name("koze-files").build().ok()?;
            let handle = runtime.handle().clone();
            std::thread::Builder::new()
                .name("koze-engine".into())
                .spawn(move || runtime.block_on(std::future::pending::<()>()))
                .ok()?;
            Some(handle)
        })
        .as_ref()
        .ok_or_else(|| Error::new(Code::Unavailable, "the system cannot start another thread for koze"))
}

/// Runs a future to completion even if the caller stops waiting, so that a partly written file is still cleaned up.
pub(super) async fn run_to_completion<T: Send + 'static>(
    work: impl Future<Output = Result<T>> + Send + 'static,
) -> Result<T> {
    engine()?.spawn(work).await.map_err(panic_error)?
}

/// Runs a future until the caller drops it.
pub(super) async fn run_while_waited<T: Send + 'static>(
    work: impl Future<Output = Result<T>> + Send + 'static,
) -> Result<T> {
    let mut all = JoinSet::new();
    // Dropping the set aborts the task.
    all.spawn_on(work, engine()?);
    let done = all.join_next().await.unwrap_or_else(|| Ok(Err(gone_error())));
    done.map_err(|error| Error::new(Code::Internal, error.to_string()))?
}

/// The same for blocking work.
pub(super) async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    engine()?.spawn_blocking(work).await.map_err(panic_error)?
}

/// Work that panicked. The text of a panic is for the log of the host.
fn panic_error(error: tokio::task::JoinError) -> Error {
    Error::new(Code::Internal, "koze failed on this call: its host's log has the reason").with_source(error)
}
