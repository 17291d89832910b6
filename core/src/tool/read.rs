//! Parses tool input and rejects duplicate keys. JSON does not define their meaning, and most parsers take the last one: of two
//! commands from a model, only one would run.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::error::Category;
use serde_json::{Map, Number, Value};

use crate::error::{Code, Error};

/// Why a text is not a valid input.
#[derive(Debug)]
pub enum ReadError {
    /// It is not JSON.
    InvalidJson(serde_json::Error),
    /// An object in it has a duplicate key: an error [`Code::InvalidInput`] that names the key.
    DuplicateKey(Error),
}

/// Parses JSON without duplicate keys.
///
/// # Errors
/// See [`ReadError`].
pub fn read(text: &[u8]) -> Result<Value, ReadError> {
    let mut json = serde_json::Deserializer::from_slice(text);
    let value = Once.deserialize(&mut json).and_then(|value| json.end().map(|()| value));
    value.map_err(|error| match error.classify() {
        // Any value is good, so nothing else can be wrong with what is JSON.
        Category::Data => ReadError::DuplicateKey(Error::new(Code::InvalidInput, error.to_string())),
        _ => ReadError::InvalidJson(error),
    })
}

/// A value without duplicate keys.
struct Once;

impl<'de> DeserializeSeed<'de> for Once {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Once {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = list.next_element_seed(Once)? {
            values.push(value);
        }
        Ok(Value::Array(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Value, A::Error> {
        let mut fields = Map::new();
        while let Some(key) = object.next_key::<String>()? {
            if fields.contains_key(&key) {
                let short: String = key.chars().take(MAX_NAME).collect();
                let message = format_args!("duplicate key `{short}` in an object");
                return Err(A::Error::custom(message));
            }
            fields.insert(key, object.next_value_seed(Once)?);
        }
        Ok(Value::Object(fields))
    }
}

/// The number of characters of a key in a message.
const MAX_NAME: usize = 100;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_parsed_as_usual() {
        for text in [
            r#"{"a":{"b":[1,-2,3.5,1e300,18446744073709551615,"ä\u0000\ud83d\ude00",null,true,{"b":1}]},"b":{}}"#,
            "[]",
            r#"[{"a":1},{"a":2}]"#,
            " 7 ",
            "null",
        ] {
            let value: Value = serde_json::from_str(text).unwrap();
            assert_eq!(read(text.as_bytes()).unwrap(), value, "{text}");
        }
        for text in ["", "{", r#"{"a":1} x"#, r#"{"a" 1}"#, "nul", "\u{1}", &"[".repeat(1000), "1e999"] {
            let error = serde_json::from_str::<Value>(text).unwrap_err().to_string();
            assert!(
                matches!(read(text.as_bytes()), Err(ReadError::InvalidJson(same)) if same.to_string() == error),
                "{text}"
            );
        }
        assert!(matches!(read(b"\"\xff\""), Err(ReadError::InvalidJson(_))));
    }

    #[test]
    fn a_key_stands_once() {
        for text in [
            r#"{"a":1,"a":1}"#,
            r#"{"a":1,"b":2,"\u0061":3}"#,
            r#"{"x":[{"y":{"a":{"a":1},"b":2,"a":3}}]}"#,
            r#"{"a":1,"a":"#,
        ] {
            let Err(ReadError::DuplicateKey(error)) = read(text.as_bytes()) else { panic!("{text}") };
            assert_eq!(error.code, Code::InvalidInput);
            let expected = "duplicate key `a` in an object at line 1 column ";
            assert!(error.message.starts_with(expected), "{error}");
        }
    }
}
