//! Adjusts input that means what a tool expects, but is written in another way: many clients write `null` for an argument
//! that they leave out, and `2000.0` for a whole number.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

/// The maximum length of a list or an object that is looked into, in bytes: its values are built.
const MAX_LENGTH: usize = 4096;
/// The range of whole numbers that a floating-point number represents exactly.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// Returns an object without members that are `null`, and with whole numbers as such. Returns `None` if nothing changes.
pub(super) fn normalize_object(object: &str) -> Option<String> {
    let mut json = serde_json::Deserializer::from_str(object);
    let members = Members.deserialize(&mut json).ok()?;
    let text = format!("{{{}}}", members.join(","));
    (text != object).then_some(text)
}

/// The members of an object that remain, as text.
struct Members;

impl<'de> DeserializeSeed<'de> for Members {
    type Value = Vec<String>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Members {
    type Value = Vec<String>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Self::Value, A::Error> {
        let mut members = Vec::new();
        while let Some((key, value)) = object.next_entry::<String, &RawValue>()? {
            if value.get() != "null" {
                members.push(format!("{}:{}", Value::from(key), adjusted_value(value.get())));
            }
        }
        Ok(members)
    }
}

/// Returns the text of a value with whole numbers as such.
fn adjusted_value(text: &str) -> String {
    if text.len() > MAX_LENGTH || text.starts_with('"') || !text.contains(['.', 'e', 'E', 'n']) {
        return text.to_owned();
    }
    // A number may be too large.
    let Ok(mut value) = serde_json::from_str(text) else { return text.to_owned() };
    normalize_value(&mut value);
    value.to_string()
}

fn normalize_value(value: &mut Value) {
    match value {
        Value::Number(number) if number.is_f64() => {
            if let Some(whole) =
                number.as_f64().filter(|number| number.fract() == 0.0 && number.abs() <= EXACT)
            {
                #[expect(clippy::cast_possible_truncation, reason = "the number is whole, and in range")]
                let whole = whole as i64;
                *value = whole.into();
            }
        }
        Value::Array(values) => values.iter_mut().for_each(normalize_value),
        Value::Object(members) => {
            members.retain(|_, value| !value.is_null());
            members.values_mut().for_each(normalize_value);
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nulls_go_and_whole_numbers_are_whole() {
        for (text, expected) in [
            (r#"{"a":2000.0,"b":null}"#, Some(r#"{"a":2000}"#)),
            (r#"{"a":[1.0,2.5,-3e2],"b":"null 1.0"}"#, Some(r#"{"a":[1,2.5,-300],"b":"null 1.0"}"#)),
            (r#"{"a":{"b":null,"c":1.0}}"#, Some(r#"{"a":{"c":1}}"#)),
            (r#"{"a":1,"b":2.5,"c":true}"#, None),
            (r#"{"a":1e300}"#, Some(r#"{"a":1e+300}"#)),
            ("{}", None),
            ("[1.0]", None),
        ] {
            assert_eq!(normalize_object(text).as_deref(), expected, "{text}");
        }
        let long = format!(r#"{{"a":[{}1.0]}}"#, "1,".repeat(MAX_LENGTH));
        assert_eq!(normalize_object(&long), None);
    }
}
