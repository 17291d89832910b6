//! koze's own variables and secrets, by imported getters: each lookup by a string of Rust would copy it to JavaScript first,
//! in every request.

use worker::Env;
use worker::wasm_bindgen::prelude::wasm_bindgen;
use worker::wasm_bindgen::{JsCast, JsValue};

#[wasm_bindgen(wasm_bindgen = worker::wasm_bindgen, js_sys = worker::js_sys)]
extern "C" {
    type Settings;
    #[wasm_bindgen(method, getter, js_name = "KOZE_TOKEN")]
    fn token(this: &Settings) -> JsValue;
    #[wasm_bindgen(method, getter, js_name = "KOZE_TOKENS")]
    fn tokens(this: &Settings) -> JsValue;
    #[wasm_bindgen(method, getter, js_name = "KOZE_PREVIEW_HOST")]
    fn preview_host(this: &Settings) -> JsValue;
}

fn settings(env: &Env) -> &Settings {
    env.unchecked_ref()
}

/// Returns the secret `KOZE_TOKEN`: the single token.
pub(super) fn token(env: &Env) -> JsValue {
    settings(env).token()
}

/// Returns the secret `KOZE_TOKENS`: the tokens of several tenants.
pub(super) fn tokens(env: &Env) -> JsValue {
    settings(env).tokens()
}

/// Returns the variable `KOZE_PREVIEW_HOST`: the host of preview URLs, if it differs from the host of the request.
pub(super) fn preview_host(env: &Env) -> Option<String> {
    settings(env).preview_host().as_string().filter(|host| !host.is_empty())
}
