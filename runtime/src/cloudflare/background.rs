//! Work that continues after the response to a request.

use worker::js_sys::Promise;
use worker::wasm_bindgen::JsValue;
use worker::wasm_bindgen::prelude::wasm_bindgen;
use worker::wasm_bindgen_futures::future_to_promise;

#[wasm_bindgen(module = "cloudflare:workers", wasm_bindgen = worker::wasm_bindgen, js_sys = worker::js_sys)]
extern "C" {
    /// Keeps the request alive until a promise settles.
    #[wasm_bindgen(catch, js_name = "waitUntil")]
    fn wait_until(promise: &Promise) -> Result<(), JsValue>;
}

/// Runs work that nothing waits for.
pub(super) fn run_in_background(work: impl Future<Output = ()> + 'static) {
    let promise = future_to_promise(async move {
        work.await;
        Ok(JsValue::UNDEFINED)
    });
    // Outside of a request, the work runs as well.
    let _ = wait_until(&promise);
}
