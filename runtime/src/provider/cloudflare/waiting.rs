//! Somebody who waits, as an object hears of it: a function whose promise comes when nobody waits any more.
//!
//! Where this Worker is ended with the request that it answers, for the client has gone, the promise is broken, and the
//! object hears of that.

use std::fmt;

use worker::js_sys::{Function, Promise};
use worker::wasm_bindgen::closure::Closure;
use worker::wasm_bindgen::{JsCast, JsValue};

/// One who waits, for as long as this lives.
pub(super) struct Waiting {
    function: Closure<dyn Fn() -> Promise>,
    /// Lets the promise come.
    over: Option<Function>,
}

impl Waiting {
    pub(super) fn new() -> Self {
        let mut over = None;
        let promise = Promise::new(&mut |done, _| over = Some(done));
        Waiting { function: Closure::new(move || promise.clone()), over }
    }

    /// The function, as a method takes it.
    pub(super) fn function(&self) -> &JsValue {
        self.function.as_ref().unchecked_ref()
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if let Some(over) = &self.over {
            // Whoever does not hear it has gone itself.
            let _ = over.call0(&JsValue::UNDEFINED);
        }
    }
}

impl fmt::Debug for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Waiting").finish_non_exhaustive()
    }
}
