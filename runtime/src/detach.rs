//! Work that goes on when its caller has gone: what was begun is tidied up.

use std::future::Future;

use crate::sandbox::MaybeSend;

/// Runs work to its end, whatever becomes of the caller and of the caller's runtime.
#[cfg(not(target_arch = "wasm32"))]
pub(crate) fn detach(work: impl Future<Output = ()> + MaybeSend + 'static) {
    // A system without a thread left has lost more than this.
    let _ = std::thread::Builder::new().name("koze-detached".into()).spawn(|| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
        if let Ok(runtime) = runtime {
            runtime.block_on(work);
        }
    });
}

/// Runs work to its end, whatever becomes of the caller.
#[cfg(target_arch = "wasm32")]
pub(crate) fn detach(work: impl Future<Output = ()> + MaybeSend + 'static) {
    worker::wasm_bindgen_futures::spawn_local(work);
}
