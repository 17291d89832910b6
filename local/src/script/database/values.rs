//! Values of `SQLite` as JSON. A BLOB is `{"base64": TEXT}`.

use data_encoding::BASE64;
use rusqlite::types::{Value as Sql, ValueRef};
use serde_json::{Value, json};

use koze_core::error::{Code, Error, Result};

pub(super) fn to_json(value: ValueRef<'_>) -> Value {
    match value {
        ValueRef::Null => Value::Null,
        ValueRef::Integer(number) => number.into(),
        // JSON has no infinity.
        ValueRef::Real(number) => number.into(),
        ValueRef::Text(text) => String::from_utf8_lossy(text).into(),
        ValueRef::Blob(bytes) => json!({ "base64": BASE64.encode(bytes) }),
    }
}

pub(super) fn from_json(value: &Value) -> Result<Sql> {
    let invalid = |text: &str| Err(Error::new(Code::InvalidInput, text));
    match value {
        Value::Null => Ok(Sql::Null),
        Value::Bool(value) => Ok(Sql::Integer(i64::from(*value))),
        Value::Number(number) => match (number.as_i64(), number.as_f64()) {
            (Some(number), _) => Ok(Sql::Integer(number)),
            (None, Some(number)) => Ok(Sql::Real(number)),
            (None, None) => invalid("a number in `params` is too large"),
        },
        Value::String(text) => Ok(Sql::Text(text.clone())),
        Value::Object(fields) => match (fields.len(), fields.get("base64").and_then(Value::as_str)) {
            (1, Some(text)) => match BASE64.decode(text.as_bytes()) {
                Ok(bytes) => Ok(Sql::Blob(bytes)),
                Err(_) => invalid("`base64` in `params` is not valid base64"),
            },
            _ => invalid(
                "an object in `params` must be a BLOB as {base64}: pass other objects as JSON.stringify(object)",
            ),
        },
        Value::Array(_) => invalid("`params` is a flat list: pass an array as JSON.stringify(array)"),
    }
}
