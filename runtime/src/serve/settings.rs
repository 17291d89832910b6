//! koze's own variables and secrets, by imported getters: each lookup by a string of Rust would copy it to JavaScript first,
//! in every request.

use worker::Env;
use worker::wasm_bindgen::prelude::wasm_bindgen;
use worker::wasm_bindgen::{JsCast, JsValue};

#[wasm_bindgen(wasm_bindgen = worker::wasm_bindgen, js_sys = worker::js_sys)]
extern "C" {
    pub(super) type Settings;

    /// The secret with the single token.
    #[wasm_bindgen(method, getter, js_name = "KOZE_TOKEN")]
    pub(super) fn token(this: &Settings) -> JsValue;

    /// The secret with the tokens of several tenants.
    #[wasm_bindgen(method, getter, js_name = "KOZE_TOKENS")]
    pub(super) fn tokens(this: &Settings) -> JsValue;

    #[wasm_bindgen(method, getter, js_name = "KOZE_PREVIEW_HOST")]
    fn host(this: &Settings) -> JsValue;
}

impl Settings {
    /// Returns the settings of a Worker.
    pub(super) fn of(env: &Env) -> &Self {
        env.unchecked_ref()
    }

    /// Returns the host of preview URLs, if it differs from the host of the request.
    pub(super) fn preview_host(&self) -> Option<String> {
        self.host().as_string().filter(|host| !host.is_empty())
    }
}
