//! Work that continues after its caller is gone, so that it can clean up.

use std::future::Future;

use crate::maybe_send::MaybeSend;

/// Runs work to completion, even if the caller and its runtime end.
#[cfg(not(target_arch = "wasm32"))]
pub(crate) fn run_detached(work: impl Future<Output = ()> + MaybeSend + 'static) {
    // A system without a thread left has lost more than this.
    let _ = std::thread::Builder::new().name("koze-detached".into()).spawn(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        if let Ok(runtime) = runtime {
            runtime.block_on(work);
        }
    });
}

/// Runs work to completion, even if the caller ends.
#[cfg(target_arch = "wasm32")]
pub(crate) fn run_detached(work: impl Future<Output = ()> + MaybeSend + 'static) {
    wasm_bindgen_futures::spawn_local(work);
}
