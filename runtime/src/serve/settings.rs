//! koze's own variables and secrets, by imported getters: each lookup by a string of Rust would copy it to JavaScript first,
//! in every request.

use koze_core::tool::instructions::Host;
use koze_core::tool::programs::Programs;
use worker::Env;
use worker::js_sys::Array;
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

    /// The programs of the machine that `koze dev --local` runs on.
    #[wasm_bindgen(method, getter, js_name = "KOZE_LOCAL_PROGRAMS")]
    fn local_programs(this: &Settings) -> Option<LocalPrograms>;

    type LocalPrograms;

    #[wasm_bindgen(method, getter)]
    fn python(this: &LocalPrograms) -> JsValue;

    #[wasm_bindgen(method, getter)]
    fn node(this: &LocalPrograms) -> JsValue;

    #[wasm_bindgen(method, getter)]
    fn images(this: &LocalPrograms) -> Option<Array>;
}

impl Settings {
    /// Returns the settings of a Worker.
    pub(super) fn of(env: &Env) -> &Self {
        env.unchecked_ref()
    }

    /// Returns where the sandboxes run.
    pub(super) fn sandbox_host(&self) -> Host {
        let Some(programs) = self.local_programs() else { return Host::Containers };
        let images = programs.images().unwrap_or_default();
        Host::Machine(Programs {
            python: programs.python().as_string(),
            node: programs.node().as_string(),
            images: images.iter().filter_map(|image| image.as_string()).collect(),
        })
    }

    /// Returns the host of preview URLs, if it differs from the host of the request.
    pub(super) fn preview_host(&self) -> Option<String> {
        self.host().as_string().filter(|host| !host.is_empty())
    }
}
