//! The bindings that [`worker::Env`] gives no accessor of their own: variables by the type of their value, and
//! whatever the crate has no type for.

use serde::de::DeserializeOwned;
use worker::js_sys::Reflect;
use worker::wasm_bindgen::JsValue;
use worker::{Env, Error, Result};

/// The value of a binding as JavaScript has it.
///
/// # Errors
/// Where the Worker has no such binding.
pub fn raw(env: &Env, name: &str) -> Result<JsValue> {
    let value = Reflect::get(env, &JsValue::from_str(name))?;
    if value.is_undefined() { Err(missing(name)) } else { Ok(value) }
}

/// A text.
///
/// # Errors
/// Where the Worker has no such binding, or its value is no text.
pub fn text(env: &Env, name: &str) -> Result<String> {
    raw(env, name)?.as_string().ok_or_else(|| other(name, "a text"))
}

/// A number.
///
/// # Errors
/// Where the Worker has no such binding, or its value is no number.
pub fn number(env: &Env, name: &str) -> Result<f64> {
    raw(env, name)?.as_f64().ok_or_else(|| other(name, "a number"))
}

/// A Boolean.
///
/// # Errors
/// Where the Worker has no such binding, or its value is neither `true` nor `false`.
pub fn boolean(env: &Env, name: &str) -> Result<bool> {
    raw(env, name)?.as_bool().ok_or_else(|| other(name, "`true` or `false`"))
}

/// Data, which wrangler hands over as a JavaScript value and not as its text.
///
/// # Errors
/// Where the Worker has no such binding, or its value is not of the type.
pub fn json<T: DeserializeOwned>(env: &Env, name: &str) -> Result<T> {
    let value = raw(env, name)?;
    serde_wasm_bindgen::from_value(value).map_err(|error| {
        Error::RustError(format!("the binding `{name}` is not of the type asked for: {error}"))
    })
}

fn missing(name: &str) -> Error {
    Error::RustError(format!("the Worker has no binding `{name}` in this environment"))
}

fn other(name: &str, expected: &str) -> Error {
    Error::RustError(format!(
        "the binding `{name}` is not {expected}, which the wrangler configuration makes it"
    ))
}
