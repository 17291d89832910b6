//! The input of a tool as JSON, and shared parts of tools: ranges, and bytes in JSON.

use std::fmt;
use std::ops::RangeInclusive;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::de::{DeserializeOwned, DeserializeSeed, Deserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::adjust::normalize_object;
use crate::error::{Code, Error};
use crate::json::{ReadError, to_compact};

type Result<T, E = Error> = std::result::Result<T, E>;

/// The input of a tool, as JSON. A tool decodes what it needs from the text: other values are never built.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Input(Box<RawValue>);

impl Input {
    /// Reads JSON without duplicate keys, and with a limited number of values.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub fn read(text: &[u8]) -> Result<Self, ReadError> {
        Self::from_json(to_compact(text)?).map_err(ReadError::InvalidJson)
    }

    /// Returns the text.
    pub fn text(&self) -> &str {
        self.0.get()
    }

    fn from_json(json: String) -> serde_json::Result<Self> {
        RawValue::from_string(json).map(Input)
    }

    /// Returns whether it is an object.
    fn is_object(&self) -> bool {
        self.text().starts_with('{')
    }

    /// Decodes it.
    ///
    /// # Errors
    /// [`Code::InvalidInput`] with the place of what has the wrong type.
    pub(in crate::tool) fn decode<T: DeserializeOwned>(&self) -> Result<T> {
        // Of a list, serde would take the values in the order of the fields.
        if !self.is_object() {
            return Err(Error::new(Code::InvalidInput, "the input of a tool must be a JSON object"));
        }
        let error = match decode_json(self.text()) {
            Ok(input) => return Ok(input),
            Err(error) => error,
        };
        // Only now, because `null` and `1.0` may be what the tool expects.
        match normalize_object(self.text()) {
            Some(text) => decode_json(&text),
            None => Err(error),
        }
    }

    /// Removes a member, and returns its value.
    pub(in crate::tool) fn take_member(&mut self, key: &str) -> Option<Box<RawValue>> {
        if !self.is_object() {
            return None;
        }
        let mut rest = String::with_capacity(self.text().len());
        let mut json = serde_json::Deserializer::from_str(self.text());
        let taken = Take { key, rest: &mut rest }.deserialize(&mut json).ok().flatten()?;
        self.0 = RawValue::from_string(rest).ok()?;
        Some(taken)
    }

    /// Adds a text as a member that is not there. Returns whether it is an object, which has members.
    pub(in crate::tool) fn insert_member(&mut self, key: &str, text: &str) -> bool {
        let Some(members) = self.text().strip_prefix('{') else { return false };
        let comma = if members.starts_with('}') { "" } else { "," };
        let member = [key, text].map(|text| Value::from(text).to_string()).join(":");
        let added = RawValue::from_string(format!("{{{member}{comma}{members}"));
        self.0 = added.unwrap_or_else(|_| unreachable!("a member of valid JSON"));
        true
    }
}

impl From<Value> for Input {
    fn from(value: Value) -> Self {
        let json = serde_json::value::to_raw_value(&value);
        Input(json.unwrap_or_else(|_| unreachable!("a value's keys are texts")))
    }
}

impl From<Map<String, Value>> for Input {
    fn from(members: Map<String, Value>) -> Self {
        Value::Object(members).into()
    }
}

fn decode_json<T: DeserializeOwned>(text: &str) -> Result<T> {
    let mut json = serde_json::Deserializer::from_str(text);
    serde_path_to_error::deserialize(&mut json).map_err(|error| wrong_input(&error))
}

/// Returns the error for invalid input, with its place.
fn wrong_input(error: &serde_path_to_error::Error<serde_json::Error>) -> Error {
    let (field, inner) = (format!("`{}`", error.path()), error.inner());
    let what = inner.to_string();
    // The line and column are those of a text without white space.
    let position = format!(" at line {} column {}", inner.line(), inner.column());
    let what = &without_rust(what.strip_suffix(&position).unwrap_or(&what));
    let named = field == "`.`" || what.contains(&field);
    Error::new(Code::InvalidInput, if named { what.to_owned() } else { format!("{field}: {what}") })
}

/// Returns a message of serde with the types of JSON in place of Rust's.
fn without_rust(message: &str) -> String {
    let Some((found, expected)) = message.rsplit_once(", expected ") else { return message.to_owned() };
    let found = found.replacen("floating point `", "number `", 1).replacen("integer `", "number `", 1);
    let found = match found.split_once("invalid type: ").map(|(_, kind)| kind) {
        Some("map") => "invalid type: object",
        Some("sequence") => "invalid type: array",
        _ => &found,
    };
    let expected = match expected {
        "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number of at least 0",
        "i8" | "i16" | "i32" | "i64" | "isize" => "a whole number",
        "f32" | "f64" => "a number",
        "a boolean" => "`true` or `false`",
        "a sequence" => "an array",
        "a map" => "an object",
        _ if expected.starts_with("struct ") => "an object",
        _ if expected.starts_with("enum ") => "a string",
        _ => expected,
    };
    format!("{found}, expected {expected}")
}

/// Copies the members of an object without one of them, and returns that one.
struct Take<'a> {
    key: &'a str,
    rest: &'a mut String,
}

impl<'de> DeserializeSeed<'de> for Take<'_> {
    type Value = Option<Box<RawValue>>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Take<'_> {
    type Value = Option<Box<RawValue>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Self::Value, A::Error> {
        let mut taken = None;
        let mut separator = '{';
        while let Some((key, value)) = object.next_entry::<String, &RawValue>()? {
            if key == self.key {
                taken = Some(value.to_owned());
                continue;
            }
            self.rest.push(separator);
            self.rest.push_str(&Value::from(key).to_string());
            self.rest.push(':');
            self.rest.push_str(value.get());
            separator = ',';
        }
        self.rest.push_str(if separator == '{' { "{}" } else { "}" });
        Ok(taken)
    }
}

/// Deserializes a number within the range of the schema.
pub(crate) fn check_range(name: &str, value: u64, range: RangeInclusive<u64>) -> Result<u64> {
    if range.contains(&value) {
        return Ok(value);
    }
    let message = format!("`{name}` is {value}, but must be from {} to {}", range.start(), range.end());
    Err(Error::new(Code::InvalidInput, message))
}

/// Encodes bytes for JSON: as text if they are valid UTF-8, otherwise as base64. Returns whether they are text.
pub(super) fn encode_bytes(bytes: Vec<u8>) -> (String, bool) {
    match String::from_utf8(bytes) {
        Ok(text) => (text, false),
        Err(error) => (STANDARD.encode(error.as_bytes()), true),
    }
}

/// Decodes base64.
pub(super) fn from_base64(text: &str) -> Result<Vec<u8>> {
    STANDARD.decode(text).map_err(|error| {
        Error::new(Code::InvalidInput, format!("`content` is not valid base64: {error}")).with_source(error)
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn members_are_taken_and_added() {
        for (text, taken, rest) in [
            (r#"{"a":1,"b":[2],"c":{}}"#, Some("[2]"), r#"{"a":1,"c":{}}"#),
            (r#"{"b":"x"}"#, Some("\"x\""), "{}"),
            (r#"{"\u0062":null}"#, Some("null"), "{}"),
            (r#"{"a":{"b":1}}"#, None, r#"{"a":{"b":1}}"#),
            ("[1]", None, "[1]"),
        ] {
            let mut input = Input::read(text.as_bytes()).unwrap();
            assert_eq!(input.take_member("b").as_deref().map(RawValue::get), taken);
            assert_eq!(input.text(), rest);
        }
        let mut input = Input::from(json!({ "a": 1 }));
        assert!(
            input.insert_member("b\"", "x") && input.text() == r#"{"b\"":"x","a":1}"#,
            "{}",
            input.text()
        );
        let mut input = Input::from(json!({}));
        assert!(input.insert_member("b", "x") && input.text() == r#"{"b":"x"}"#, "{}", input.text());
        assert!(!Input::from(json!([])).insert_member("b", "x"));
    }

    #[test]
    fn an_unknown_member_is_refused_with_its_place() {
        #[derive(Debug, Deserialize)]
        #[serde(deny_unknown_fields)]
        #[allow(dead_code, reason = "only decoded")]
        struct Typed {
            a: u64,
            #[serde(default)]
            list: Vec<Element>,
        }
        #[derive(Debug, Deserialize)]
        #[serde(deny_unknown_fields)]
        #[allow(dead_code, reason = "only decoded")]
        struct Element {
            b: bool,
        }
        for (input, message) in [
            (json!({ "a": 1, "x": [[0]] }), "unknown field `x`, expected `a` or `list`"),
            (json!({ "a": "1" }), "`a`: invalid type: string \"1\", expected a whole number of at least 0"),
            (json!({ "a": -1 }), "`a`: invalid value: number `-1`, expected a whole number of at least 0"),
            (json!({ "a": 1.5 }), "`a`: invalid type: number `1.5`, expected a whole number of at least 0"),
            (json!({ "a": {} }), "`a`: invalid type: object, expected a whole number of at least 0"),
            (json!({ "a": 1, "list": {} }), "`list`: invalid type: object, expected an array"),
            (json!({ "a": null }), "missing field `a`"),
            (
                json!({ "a": 1, "list": [{ "b": true }, { "b": 2 }] }),
                "`list[1].b`: invalid type: number `2`, expected `true` or `false`",
            ),
            (json!({}), "missing field `a`"),
            (json!([1]), "the input of a tool must be a JSON object"),
        ] {
            assert_eq!(Input::from(input).decode::<Typed>().unwrap_err().message, message);
        }
        // As many clients write it.
        let input = json!({ "a": 2000.0, "list": null });
        let typed: Typed = Input::from(input).decode().unwrap();
        assert_eq!((typed.a, typed.list.len()), (2000, 0));
    }
}
