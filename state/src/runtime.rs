//! A runtime on its own thread. Sandboxes outlive the runtime of the caller: each test function has its own.

use std::sync::OnceLock;

use tokio::runtime::{Builder, Handle};
use tokio::task::JoinSet;

use crate::errors::gone_error;
use koze_core::error::{Code, Error, Result};

/// Returns the runtime.
///
/// # Errors
/// [`Code::Unavailable`] if its thread cannot be started.
pub fn engine() -> Result<&'static Handle> {
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
///
/// # Errors
/// The errors of the work, those of [`engine`], and [`Code::Internal`] if the work panics.
pub async fn run_to_completion<T: Send + 'static>(
    work: impl Future<Output = Result<T>> + Send + 'static,
) -> Result<T> {
    engine()?.spawn(work).await.map_err(panic_error)?
}

/// Runs a future until the caller drops it.
///
/// # Errors
/// As [`run_to_completion`].
pub async fn run_while_waited<T: Send + 'static>(
    work: impl Future<Output = Result<T>> + Send + 'static,
) -> Result<T> {
    let mut all = JoinSet::new();
    // Dropping the set aborts the task.
    all.spawn_on(work, engine()?);
    let done = all.join_next().await.unwrap_or_else(|| Ok(Err(gone_error())));
    done.map_err(|error| Error::new(Code::Internal, error.to_string()))?
}

/// The same for blocking work.
///
/// # Errors
/// As [`run_to_completion`].
pub async fn run_blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    engine()?.spawn_blocking(work).await.map_err(panic_error)?
}

/// Runs a future on the thread that manages sandboxes. A program that does little else saves two thread switches per
/// call. Do not run blocking work there.
///
/// # Errors
/// [`Code::Unavailable`] if no thread can be created, [`Code::Internal`] if the work panics.
pub fn block_on<T: Send + 'static>(work: impl Future<Output = T> + Send + 'static) -> Result<T> {
    let (done, result) = std::sync::mpsc::channel();
    engine()?.spawn(async move {
        let _ = done.send(work.await);
    });
    result.recv().map_err(|_| Error::new(Code::Internal, "a task on the engine's thread panicked"))
}

/// Work that panicked. The text of a panic is for the log of the host.
fn panic_error(error: tokio::task::JoinError) -> Error {
    Error::new(Code::Internal, "koze failed on this call: its host's log has the reason").with_source(error)
}
