//! Reads the JSON of models: rejects duplicate keys, and bounds how many values there are, without building them.
//!
//! JSON does not define the meaning of duplicate keys, and most parsers take the last one: of two commands from a model, only
//! one would run. A value takes up to a hundred times as much memory as its text: `[0]` takes four bytes and then four hundred.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;

use serde::Serialize;
use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

use crate::error::{Code, Error};

/// How many values a text can have that is not built: more than a mebibyte of JSON has.
const MAX_VALUES: usize = 1 << 20;
/// How many values a text can have that is built, in units of [`UNIT`] bytes of memory.
const MAX_BUILT: usize = 1 << 20;
/// How many units a list and an object take beyond their elements, because they reserve space.
const LIST: usize = 5;
const OBJECT: usize = 8;
/// How many of these units the parts of a message have that no tool reads.
pub(crate) const MAX_ENVELOPE: usize = 1 << 14;

/// Why a text is not a valid input.
#[derive(Debug)]
pub enum ReadError {
    /// It is not JSON.
    InvalidJson(serde_json::Error),
    /// An object in it has a duplicate key: an error [`Code::InvalidInput`] that names the key.
    DuplicateKey(Error),
    /// It has too many values: an error [`Code::TooLarge`].
    TooManyValues(Error),
}

impl ReadError {
    /// Returns the error of the tool for JSON that is not accepted.
    ///
    /// # Errors
    /// If it is not JSON, which is an error of the request.
    pub fn into_tool_error(self) -> Result<Error, serde_json::Error> {
        match self {
            ReadError::InvalidJson(error) => Err(error),
            ReadError::DuplicateKey(error) | ReadError::TooManyValues(error) => Ok(error),
        }
    }
}

/// Parses JSON without duplicate keys. [`Input::read`](crate::tool::Input::read) reads larger inputs, because it builds no values.
///
/// # Errors
/// See [`ReadError`].
pub fn read(text: &[u8]) -> Result<Value, ReadError> {
    parse_bounded(text, MAX_BUILT)
}

/// Parses JSON without duplicate keys whose values take at most so many units of memory.
pub(crate) fn parse_bounded(text: &[u8], most: usize) -> Result<Value, ReadError> {
    let compact = Reading { list: LIST, object: OBJECT, ..Reading::new(text.len(), most) }.read_text(text)?;
    serde_json::from_slice(&compact).map_err(ReadError::InvalidJson)
}

/// Reads JSON without duplicate keys, and returns it without white space.
pub(crate) fn to_compact(text: &[u8]) -> Result<String, ReadError> {
    let compact = Reading::new(text.len(), MAX_VALUES).read_text(text)?;
    // It was written as text.
    String::from_utf8(compact).map_err(|error| ReadError::InvalidJson(serde_json::Error::custom(error)))
}

/// Checks that the values of a text take at most so many units of memory. It can have duplicate keys.
pub(crate) fn check_memory(text: &[u8], most: usize) -> Result<(), ReadError> {
    let reading = Reading { list: LIST, object: OBJECT, is_unique: false, ..Reading::new(text.len(), most) };
    reading.read_text(text).map(drop)
}

/// Checks that the values of a text that koze or an engine has written can be built.
///
/// # Errors
/// [`Code::TooLarge`].
pub(crate) fn check_values(text: &str) -> Result<(), Error> {
    // Other errors are reported when the values are built.
    match check_memory(text.as_bytes(), MAX_BUILT) {
        Err(ReadError::TooManyValues(error)) => Err(error),
        _ => Ok(()),
    }
}

/// A text that is being read.
struct Reading {
    /// The same JSON without white space.
    out: Vec<u8>,
    /// How many values are allowed, and how many are left.
    most: usize,
    left: usize,
    /// What lists and objects count in addition.
    list: usize,
    object: usize,
    /// Whether duplicate keys are refused.
    is_unique: bool,
    problem: Option<Problem>,
}

enum Problem {
    DuplicateKey,
    TooManyValues,
}

impl Reading {
    fn new(length: usize, most: usize) -> Self {
        Reading {
            out: Vec::with_capacity(length),
            most,
            left: most,
            list: 0,
            object: 0,
            is_unique: true,
            problem: None,
        }
    }

    fn read_text(mut self, text: &[u8]) -> Result<Vec<u8>, ReadError> {
        let mut json = serde_json::Deserializer::from_slice(text);
        let read = Element { reading: &mut self, comma: false }.deserialize(&mut json);
        match (read.and_then(|()| json.end()), self.problem) {
            (Ok(()), _) => Ok(self.out),
            (Err(error), None) => Err(ReadError::InvalidJson(error)),
            (Err(error), Some(Problem::DuplicateKey)) => {
                Err(ReadError::DuplicateKey(Error::new(Code::InvalidInput, error.to_string())))
            }
            (Err(_), Some(Problem::TooManyValues)) => {
                let message = format!(
                    "the JSON has too many values: at most {} are accepted, and fewer lists and objects. Pass less at once, or \
                     write it to a file",
                    self.most
                );
                Err(ReadError::TooManyValues(Error::new(Code::TooLarge, message)))
            }
        }
    }

    /// Counts a value, or what it takes in addition.
    fn add_cost<E: serde::de::Error>(&mut self, cost: usize) -> Result<(), E> {
        let left = self.left.checked_sub(cost).ok_or_else(|| {
            self.problem = Some(Problem::TooManyValues);
            E::custom("too many values")
        })?;
        self.left = left;
        Ok(())
    }

    fn write_value<E: serde::de::Error>(&mut self, value: &(impl Serialize + ?Sized)) -> Result<(), E> {
        serde_json::to_writer(&mut self.out, value).map_err(E::custom)
    }
}

/// A value of a text, behind a comma unless it is the first one.
struct Element<'a> {
    reading: &'a mut Reading,
    comma: bool,
}

impl<'de> DeserializeSeed<'de> for Element<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        if self.comma {
            self.reading.out.push(b',');
        }
        self.reading.add_cost(1)?;
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Element<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<(), E> {
        self.reading.write_value(&())
    }

    fn visit_bool<E: serde::de::Error>(self, value: bool) -> Result<(), E> {
        self.reading.write_value(&value)
    }

    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<(), E> {
        self.reading.write_value(&value)
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<(), E> {
        self.reading.write_value(&value)
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<(), E> {
        self.reading.write_value(&value)
    }

    fn visit_str<E: serde::de::Error>(self, value: &str) -> Result<(), E> {
        self.reading.write_value(value)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        self.reading.add_cost(self.reading.list)?;
        self.reading.out.push(b'[');
        let mut comma = false;
        while list.next_element_seed(Element { reading: self.reading, comma })?.is_some() {
            comma = true;
        }
        self.reading.out.push(b']');
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<(), A::Error> {
        self.reading.add_cost(self.reading.object)?;
        self.reading.out.push(b'{');
        let mut keys = BTreeSet::new();
        while let Some(key) = object.next_key_seed(Key)? {
            if self.reading.is_unique && keys.contains(&key) {
                self.reading.problem = Some(Problem::DuplicateKey);
                let short: String = key.chars().take(MAX_NAME).collect();
                return Err(A::Error::custom(format_args!("duplicate key `{short}` in an object")));
            }
            if !keys.is_empty() {
                self.reading.out.push(b',');
            }
            self.reading.write_value(&*key)?;
            self.reading.out.push(b':');
            keys.insert(key);
            object.next_value_seed(Element { reading: self.reading, comma: false })?;
        }
        self.reading.out.push(b'}');
        Ok(())
    }
}

/// A key, which is not copied if it has no escapes.
struct Key;

impl<'de> DeserializeSeed<'de> for Key {
    type Value = Cow<'de, str>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl<'de> Visitor<'de> for Key {
    type Value = Cow<'de, str>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a key")
    }

    fn visit_borrowed_str<E>(self, key: &'de str) -> Result<Self::Value, E> {
        Ok(Cow::Borrowed(key))
    }

    fn visit_str<E>(self, key: &str) -> Result<Self::Value, E> {
        Ok(Cow::Owned(key.to_owned()))
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

    #[test]
    fn values_are_counted_before_they_are_built() {
        let text = |values: usize| format!("[{}0]", "0,".repeat(values - 2));
        assert_eq!(to_compact(text(MAX_VALUES).as_bytes()).unwrap().len(), 2 * MAX_VALUES - 1);
        let nested = format!("{{\"command\":\"true\",\"x\":[{}[0]]}}", "[0],".repeat(4_800_000));
        for (text, limit) in [
            (text(MAX_VALUES + 1), MAX_VALUES),
            (nested, MAX_VALUES),
            (format!("[{}[]]", "[],".repeat(MAX_VALUES)), MAX_VALUES),
            (format!("[{}{{}}]", "{},".repeat(MAX_VALUES)), MAX_VALUES),
        ] {
            for result in [to_compact(text.as_bytes()).map(drop), read(text.as_bytes()).map(drop)] {
                let Err(ReadError::TooManyValues(error)) = result else { panic!("{}", &text[..40]) };
                assert_eq!(error.code, Code::TooLarge);
                assert!(error.message.contains(&format!("at most {limit} are accepted")), "{error}");
            }
        }
        // Lists and objects take more memory than numbers.
        let lists = |count: usize| format!("[{}[0]]", "[0],".repeat(count - 1));
        let objects = |count: usize| format!("[{}{{\"a\":0}}]", "{\"a\":0},".repeat(count - 1));
        assert!(read(lists(100_000).as_bytes()).is_ok() && read(objects(100_000).as_bytes()).is_ok());
        assert!(read(lists(200_000).as_bytes()).is_err() && read(objects(200_000).as_bytes()).is_err());
    }

    #[test]
    fn json_is_written_as_a_value_is() {
        for text in [
            r#" { "a" : [ 1.0 , -0 , 1e2 , 0.1 , "\u00e9\u0007\/\"" , { } , [ ] , true , null ] , "\u0062" : 18446744073709551615 } "#,
            "-0.0",
            "\"\u{2028}\"",
        ] {
            let value: Value = serde_json::from_str(text).unwrap();
            assert_eq!(to_compact(text.as_bytes()).unwrap(), value.to_string(), "{text}");
        }
    }
}
