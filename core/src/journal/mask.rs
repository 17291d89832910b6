//! Masks secrets in what is recorded.

use serde_json::Value;

use crate::script::Secrets;
#[cfg(feature = "script")]
use crate::tool::mask::Mask;

/// Masks the values of secrets in texts.
#[cfg(feature = "script")]
pub(super) fn mask_value(secrets: &Secrets, value: Value) -> Value {
    Mask::new(secrets).mask_value(value)
}

/// Masks the values in texts. Without scripts, the only secrets are those that attributes declare.
#[cfg(not(feature = "script"))]
pub(super) fn mask_value(secrets: &Secrets, value: Value) -> Value {
    match value {
        Value::String(mut text) => {
            for (name, secret) in secrets.iter() {
                if text.contains(secret) {
                    text = text.replace(secret, &format!("[secret {name}]"));
                }
            }
            Value::String(text)
        }
        Value::Array(items) => items.into_iter().map(|item| mask_value(secrets, item)).collect(),
        Value::Object(mut fields) => {
            for field in fields.values_mut() {
                *field = mask_value(secrets, field.take());
            }
            Value::Object(fields)
        }
        value => value,
    }
}
