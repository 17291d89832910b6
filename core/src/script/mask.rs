//! Masks the values of secrets in the results of the tools `script`.
//!
//! This protects against accidents, such as a key in the message of an error. A script that transforms a value can still
//! return it.

use std::fmt::Write as _;
use std::ops::Range;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value};

use super::url::encoded;
use super::{SHORTEST_MASKED, Secrets};
use crate::error::Result;
use crate::tool::dialect::Definition;
use crate::tool::{Content, Reply};

/// The minimum length of a value's beginning that is masked at the end of a truncated text, in bytes.
const BEGINNING: usize = 4;
/// The end of texts that the engine has truncated.
const CUTS: &[&str] = &["…", "\n[the log is full: "];

/// The values to mask, in the forms in which they occur.
pub(crate) struct Mask {
    /// The forms, with the names of their secrets.
    forms: Vec<(String, String)>,
}

impl Mask {
    /// Creates the mask of secrets.
    pub(crate) fn new(secrets: &Secrets) -> Self {
        let masked = secrets.iter().filter(|(_, value)| value.chars().count() >= SHORTEST_MASKED);
        let of = |(name, value): (&str, &str)| {
            forms(value).into_iter().map(|form| (form, name.to_owned())).collect::<Vec<_>>()
        };
        Mask { forms: masked.flat_map(of).collect() }
    }

    /// Masks the outcome of a tool.
    pub(crate) fn outcome(&self, outcome: Result<Reply>) -> Result<Reply> {
        match outcome {
            Ok(Reply { content, is_error }) => Ok(Reply { content: self.content(content), is_error }),
            Err(mut error) => {
                error.message = self.text(error.message);
                Err(error)
            }
        }
    }

    /// Masks the definition of a created tool. Returns `None` if the name contains a value: a tool with a masked name cannot be called.
    pub(crate) fn definition(&self, definition: Definition) -> Option<Definition> {
        if self.secret_in(&definition.name).is_some() {
            return None;
        }
        let description = self.text(definition.description.into_owned()).into();
        Some(Definition { description, schema: self.value(definition.schema), ..definition })
    }

    /// Returns the name of a secret whose value is in a text.
    pub(crate) fn secret_in(&self, text: &str) -> Option<&str> {
        self.found(text).first().map(|(_, name)| *name)
    }

    fn content(&self, content: Content) -> Content {
        match content {
            Content::Json(value) => Content::Json(self.value(value)),
            Content::Text(text) => Content::Text(self.text(text)),
            Content::Picture(value) => Content::Picture(self.value(value)),
        }
    }

    fn value(&self, value: Value) -> Value {
        if self.forms.is_empty() {
            return value;
        }
        match value {
            Value::String(text) => Value::String(self.text(text)),
            Value::Array(items) => Value::Array(items.into_iter().map(|item| self.value(item)).collect()),
            Value::Object(fields) => {
                let field = |(name, field)| (self.text(name), self.value(field));
                Value::Object(fields.into_iter().map(field).collect::<Map<_, _>>())
            }
            Value::Number(number) => {
                let text = number.to_string();
                if self.found(&text).is_empty() { Value::Number(number) } else { self.text(text).into() }
            }
            value => value,
        }
    }

    fn text(&self, text: String) -> String {
        let found = self.found(&text);
        if found.is_empty() {
            return text;
        }
        let (mut masked, mut at) = (String::with_capacity(text.len()), 0);
        for (range, name) in found {
            masked.push_str(&text[at..range.start]);
            let _ = write!(masked, "[secret {name}]");
            at = range.end;
        }
        masked.push_str(&text[at..]);
        masked
    }

    /// Returns the ranges of values in a text, and the names of their secrets. The ranges do not overlap.
    fn found(&self, text: &str) -> Vec<(Range<usize>, &str)> {
        // One search for each form: one for all of them would be faster in long texts, and adds 10 KiB to a Worker.
        let mut all: Vec<(Range<usize>, &str)> = Vec::new();
        for (form, name) in &self.forms {
            let before = all.len();
            for range in occurrences(text, form) {
                merge(&mut all, before, (range, name));
            }
        }
        all.extend(self.cut(text));
        all.sort_unstable_by_key(|(range, _)| (range.start, std::cmp::Reverse(range.end)));
        let mut merged: Vec<(Range<usize>, &str)> = Vec::new();
        for found in all {
            merge(&mut merged, 0, found);
        }
        merged
    }

    /// Returns the range of the beginning of a value that the engine has truncated.
    fn cut(&self, text: &str) -> Option<(Range<usize>, &str)> {
        let end = CUTS.iter().find_map(|cut| match cut.strip_prefix('\n') {
            Some(_) => text.rfind(cut),
            None => text.strip_suffix(cut).map(str::len),
        })?;
        let head = &text[..end];
        let beginning = |form: &str| {
            let mut lengths = (BEGINNING..form.len()).rev();
            lengths.find(|at| form.is_char_boundary(*at) && head.ends_with(&form[..*at]))
        };
        let begun = self.forms.iter().filter_map(|(form, name)| Some((beginning(form)?, name.as_str())));
        let (length, name) = begun.max_by_key(|(length, _)| *length)?;
        Some((end - length..end, name))
    }
}

/// Adds a range behind those of a list from some index on: to the last of them, if they overlap.
fn merge<'a>(all: &mut Vec<(Range<usize>, &'a str)>, from: usize, (range, name): (Range<usize>, &'a str)) {
    match all[from..].last_mut() {
        Some((last, _)) if range.start < last.end => last.end = last.end.max(range.end),
        _ => all.push((range, name)),
    }
}

/// Returns the ranges of a form in a text. They can overlap.
fn occurrences(text: &str, form: &str) -> impl Iterator<Item = Range<usize>> {
    let first = form.chars().next().map_or(1, char::len_utf8);
    let mut from = 0;
    std::iter::from_fn(move || {
        let at = from + text[from..].find(form)?;
        from = at + first;
        Some(at..at + form.len())
    })
}

/// Returns the forms of a value: the value itself, and how it is written within JSON, in a URL, and as base64. The host of a URL and
/// the names of headers are lowercase.
fn forms(value: &str) -> Vec<String> {
    let json = Value::from(value).to_string();
    let mut forms =
        vec![value.to_owned(), json[1..json.len() - 1].to_owned(), percent(value), STANDARD.encode(value)];
    forms.extend(in_url(value));
    forms.push(value.to_ascii_lowercase());
    forms.sort_unstable();
    forms.dedup();
    forms
}

/// Encodes a value as the URL parser does, in a path and in a query.
fn in_url(value: &str) -> Vec<String> {
    let [path, query] = encoded(value);
    let parts = [path.strip_prefix('/'), Some(query.as_str())];
    // Dot segments and line breaks are removed, and what is left could be anything.
    parts.into_iter().flatten().filter(|part| part.len() >= value.len()).map(str::to_owned).collect()
}

/// Encodes a value as `encodeURIComponent` does.
fn percent(value: &str) -> String {
    value.bytes().fold(String::new(), |mut text, byte| {
        if byte.is_ascii_alphanumeric() || b"-_.!~*'()".contains(&byte) {
            text.push(char::from(byte));
        } else {
            let _ = write!(text, "%{byte:02X}");
        }
        text
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::error::{Code, Error};

    fn mask(secrets: &[(&str, &str)]) -> Mask {
        Mask::new(&secrets.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect())
    }

    #[test]
    fn values_are_masked_wherever_they_are() {
        let mask = mask(&[
            ("KEY", "a \"key\"/ü1"),
            ("PIN", "123456789"),
            ("SHORT", "1234567"),
            ("UPPER", "Upper-Case"),
        ]);
        let value = json!({
            "plain": ["x a \"key\"/ü1 y", "a \"key\"/ü"],
            "json": "{\"a\":\"a \\\"key\\\"/ü1\"}",
            "url": "https://a.example/?key=a%20%22key%22%2F%C3%BC1&b",
            "path": "https://a.example/a%20%22key%22/%C3%BC1/b?a%20%22key%22/%C3%BC1",
            "host": "https://upper-case.example/",
            "base64": STANDARD.encode("a \"key\"/ü1"),
            "a \"key\"/ü1": true,
            "number": 123_456_789,
            "within": -1_234_567_890,
            "short": "1234567",
            "other": [null, 1.5, 1_234_567],
        });
        let masked = mask.outcome(Reply::ok(&value)).unwrap();
        assert_eq!(
            masked.content,
            Content::Json(json!({
                "plain": ["x [secret KEY] y", "a \"key\"/ü"],
                "json": "{\"a\":\"[secret KEY]\"}",
                "url": "https://a.example/?key=[secret KEY]&b",
                "path": "https://a.example/[secret KEY]/b?[secret KEY]",
                "host": "https://[secret UPPER].example/",
                "base64": "[secret KEY]",
                "[secret KEY]": true,
                "number": "[secret PIN]",
                "within": "-[secret PIN]0",
                "short": "1234567",
                "other": [null, 1.5, 1_234_567],
            }))
        );
        let error = mask.outcome(Err(Error::new(Code::InvalidInput, "no key `123456789`"))).unwrap_err();
        assert_eq!(error.message, "no key `[secret PIN]`");
        assert_eq!(mask.text("x".to_owned() + "123456789"), "x[secret PIN]");
    }

    #[test]
    fn definitions_are_masked_or_left_out() {
        let mask = mask(&[("KEY", "Long_secret_1")]);
        let definition = |name: &str, text: &str| Definition {
            name: name.to_owned().into(),
            description: text.to_owned().into(),
            schema: json!({ "type": "object", "description": text }),
            scope: crate::tool::Scope::Session,
        };
        let masked = mask.definition(definition("mine", "uses Long_secret_1")).unwrap();
        let expected = definition("mine", "uses [secret KEY]");
        assert_eq!((masked.description, masked.schema), (expected.description, expected.schema));
        assert!(mask.definition(definition("a_long_secret_1", "")).is_none());
    }

    #[test]
    fn values_that_overlap_are_masked_as_one() {
        let mask = mask(&[("A", "abcdefgh"), ("B", "efghijkl"), ("C", "abcdefghij"), ("D", "zzzzzzzz")]);
        assert_eq!(mask.text("-abcdefghijkl-".into()), "-[secret C]-");
        assert_eq!(mask.text("abcdefghefghijkl".into()), "[secret A][secret B]");
        assert_eq!(mask.text(format!("-{}-", "z".repeat(13))), "-[secret D]-");
    }

    #[test]
    fn the_beginning_of_a_value_that_was_cut_is_masked() {
        let mask = mask(&[("A", "abcdefgh"), ("B", "xyzäöü12")]);
        assert_eq!(mask.text("x abcdef…".into()), "x [secret A]…");
        assert_eq!(mask.text("x xyzä…".into()), "x [secret B]…");
        assert_eq!(mask.text("x abc…".into()), "x abc…");
        assert_eq!(mask.text("x abcdef".into()), "x abcdef");
        let full = "x abcdef\n[the log is full: it has at most 1 MiB and 10000 lines]";
        assert_eq!(mask.text(full.into()), full.replace("abcdef", "[secret A]"));
    }

    #[test]
    fn without_secrets_nothing_changes() {
        assert_eq!(mask(&[("A", "short")]).text("short".into()), "short");
        assert_eq!(Mask::new(&Secrets::default()).value(json!([1])), json!([1]));
    }
}
