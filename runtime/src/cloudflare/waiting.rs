//! Tells an object when its caller stops waiting: a function whose promise resolves then.
//!
//! If this Worker is terminated with its request because the client has disconnected, the promise rejects, and the
//! object learns of that too.

use std::fmt;

use worker::js_sys::{Function, Promise};
use worker::wasm_bindgen::closure::Closure;
use worker::wasm_bindgen::{JsCast, JsValue};

/// The caller waits as long as this exists.
pub(super) struct Waiting {
    function: Closure<dyn Fn() -> Promise>,
    /// Resolves the promise.
    over: Option<Function>,
}

impl Waiting {
    pub(super) fn new() -> Self {
        let mut over = None;
        let promise = Promise::new(&mut |done, _| over = Some(done));
        Waiting { function: Closure::new(move || promise.clone()), over }
    }

    /// Returns the function as the parameter of a method.
    pub(super) fn function(&self) -> &JsValue {
        self.function.as_ref().unchecked_ref()
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if let Some(over) = &self.over {
            // If this fails, the receiver is gone.
            let _ = over.call0(&JsValue::UNDEFINED);
        }
    }
}

impl fmt::Debug for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Waiting").finish_non_exhaustive()
    }
}
