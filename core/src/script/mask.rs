//! Masks the values of secrets in the results of the tools `script`.
//!
//! This protects against accidents, such as a key in the message of an error. A script that transforms a value can still
//! return it.

use std::cmp::Reverse;
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
/// The end of a text that the engine has truncated.
const CUT: char = '…';
/// How the last line of a log begins that the engine has truncated.
const FULL: &str = "[the log is full: ";

/// The values to mask, in the forms in which they occur.
pub(crate) struct Mask {
    /// The forms, with the names of their secrets.
    forms: Vec<(String, String)>,
}

impl Mask {
    /// Creates the mask of secrets.
    pub(crate) fn new(secrets: &Secrets) -> Self {
        let mut all = Vec::new();
        for (name, value) in secrets.iter().filter(|(_, value)| value.chars().count() >= SHORTEST_MASKED) {
            for form in forms(value) {
                all.push((form, name.to_owned()));
            }
        }
        Mask { forms: all }
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
    pub(crate) fn secret_in<'a>(&'a self, text: &'a str) -> Option<&'a str> {
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
    fn found<'a>(&'a self, text: &'a str) -> Vec<(Range<usize>, &'a str)> {
        // One search for each form: one for all of them would be faster in long texts, and adds 10 KiB to a Worker. A sort of what
        // they find would add 2 KiB.
        let mut searches: Vec<Search<'_>> =
            self.forms.iter().map(|(form, name)| Search::new(text, form, name)).collect();
        searches.extend(self.cut(text));
        let mut found: Vec<(Range<usize>, &str)> = Vec::new();
        // Of those that begin at the same place, the longest is the first.
        let order =
            |search: &&mut Search<'_>| (search.next.unwrap_or(usize::MAX), Reverse(search.form.len()));
        while let Some((range, name)) = searches.iter_mut().min_by_key(order).and_then(Search::take) {
            match found.last_mut() {
                Some((last, _)) if range.start < last.end => last.end = last.end.max(range.end),
                _ => found.push((range, name)),
            }
        }
        found
    }

    /// Finds the beginning of a value that the engine has truncated.
    fn cut<'a>(&'a self, text: &'a str) -> Option<Search<'a>> {
        let before_last = || text.rsplit_once('\n').filter(|(_, last)| last.starts_with(FULL));
        let head = text.strip_suffix(CUT).or_else(|| before_last().map(|(before, _)| before))?;
        let beginning = |form: &str| {
            let mut lengths = (BEGINNING..form.len()).rev();
            lengths.find(|at| form.is_char_boundary(*at) && head.ends_with(&form[..*at]))
        };
        let begun = self.forms.iter().filter_map(|(form, name)| Some((&form[..beginning(form)?], name)));
        let (form, name) = begun.max_by_key(|(form, _)| form.len())?;
        Some(Search { text: head, form, name, next: Some(head.len() - form.len()) })
    }
}

/// The search for a form in a text.
struct Search<'a> {
    text: &'a str,
    form: &'a str,
    name: &'a str,
    /// Where it occurs next.
    next: Option<usize>,
}

impl<'a> Search<'a> {
    fn new(text: &'a str, form: &'a str, name: &'a str) -> Self {
        Search { text, form, name, next: text.find(form) }
    }

    /// Returns what it has found, and searches on. What it finds can overlap.
    fn take(&mut self) -> Option<(Range<usize>, &'a str)> {
        let start = self.next?;
        let from = start + self.form.chars().next().map_or(1, char::len_utf8);
        self.next = self.text[from..].find(self.form).map(|at| from + at);
        Some((start..start + self.form.len(), self.name))
    }
}

/// Returns the forms of a value: the value itself, and how it is written within JSON, in a URL, and as base64. The host of a URL and
/// the names of headers are lowercase.
fn forms(value: &str) -> Vec<String> {
    let json = Value::from(value).to_string();
    let mut forms =
        vec![value.to_owned(), json[1..json.len() - 1].to_owned(), percent(value), STANDARD.encode(value)];
    forms.extend(in_url(value));
    forms.push(value.to_ascii_lowercase());
    let mut different: Vec<String> = Vec::new();
    for form in forms {
        if !different.contains(&form) {
            different.push(form);
        }
    }
    different
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
