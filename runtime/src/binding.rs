//! Accessors for bindings that [`worker::Env`] has none for: variables by type, and kinds that the crate has no type for.

use serde::de::DeserializeOwned;
use worker::js_sys::Reflect;
use worker::wasm_bindgen::JsValue;
use worker::{Env, Error, Result};

/// Returns the JavaScript value of a binding.
///
/// # Errors
/// If the Worker has no such binding.
pub fn raw(env: &Env, name: &str) -> Result<JsValue> {
    let value = Reflect::get(env, &JsValue::from_str(name))?;
    if value.is_undefined() { Err(missing(name)) } else { Ok(value) }
}

/// Returns a string variable.
///
/// # Errors
/// If the Worker has no such binding, or its value is not a string.
pub fn text(env: &Env, name: &str) -> Result<String> {
    raw(env, name)?.as_string().ok_or_else(|| other(name, "a text"))
}

/// Returns a number variable.
///
/// # Errors
/// If the Worker has no such binding, or its value is not a number.
pub fn number(env: &Env, name: &str) -> Result<f64> {
    raw(env, name)?.as_f64().ok_or_else(|| other(name, "a number"))
}

/// Returns a Boolean variable.
///
/// # Errors
/// If the Worker has no such binding, or its value is not a Boolean.
pub fn boolean(env: &Env, name: &str) -> Result<bool> {
    raw(env, name)?.as_bool().ok_or_else(|| other(name, "`true` or `false`"))
}

/// Returns a JSON variable, which wrangler passes as a JavaScript value.
///
/// # Errors
/// If the Worker has no such binding, or its value does not match the type.
pub fn json<T: DeserializeOwned>(env: &Env, name: &str) -> Result<T> {
    let value = raw(env, name)?;
    serde_wasm_bindgen::from_value(value).map_err(|error| {
        Error::RustError(format!("the binding `{name}` has another type than the one requested: {error}"))
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
