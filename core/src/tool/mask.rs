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

use super::dialect::Definition;
use super::{Content, Reply};
use crate::error::Result;
use crate::script::url::encode_text;
use crate::script::{SHORTEST_MASKED, Secrets};

/// The minimum length of a value's beginning that is masked at the end of a truncated text, in bytes.
const BEGINNING: usize = 4;
/// The end of a text that the engine has truncated.
const CUT: char = '…';
/// How the last line of a log begins that the engine has truncated.
const FULL: &str = "[the log is full: ";
/// How often a value is escaped as JSON at most: text within JSON within JSON.
const LEVELS: usize = 3;

/// The values to mask, in the forms in which they occur.
pub(crate) struct Mask {
    /// The forms in lowercase, with the names of their secrets.
    forms: Vec<(String, String)>,
}

impl Mask {
    /// Creates the mask of secrets.
    pub(crate) fn new(secrets: &Secrets) -> Self {
        let mut all = Vec::new();
        for (name, value) in secrets.iter().filter(|(_, value)| value.chars().count() >= SHORTEST_MASKED) {
            for form in encoded_forms(value) {
                all.push((form, name.to_owned()));
            }
        }
        Mask { forms: all }
    }

    /// Masks the outcome of a tool.
    pub(crate) fn mask_outcome(&self, outcome: Result<Reply>) -> Result<Reply> {
        match outcome {
            Ok(Reply { content, is_error }) => Ok(Reply { content: self.mask_content(content), is_error }),
            Err(mut error) => {
                error.message = self.mask_text(error.message);
                Err(error)
            }
        }
    }

    /// Masks the definition of a created tool. Returns `None` if the name contains a value: a tool with a masked name cannot be called.
    pub(crate) fn mask_definition(&self, definition: Definition) -> Option<Definition> {
        if self.secret_in(&definition.name).is_some() {
            return None;
        }
        let description = self.mask_text(definition.description.into_owned()).into();
        Some(Definition { description, schema: self.mask_value(definition.schema), ..definition })
    }

    /// Returns the name of a secret whose value is in a text.
    pub(crate) fn secret_in(&self, text: &str) -> Option<&str> {
        self.find_secrets(text).first().map(|(_, name)| *name)
    }

    fn mask_content(&self, content: Content) -> Content {
        match content {
            Content::Json(value) => Content::Json(self.mask_value(value)),
            Content::Text(text) => Content::Text(self.mask_text(text)),
            Content::Picture(value) => Content::Picture(self.mask_value(value)),
            Content::Outputs(value) => Content::Outputs(self.mask_value(value)),
        }
    }

    pub(crate) fn mask_value(&self, value: Value) -> Value {
        if self.forms.is_empty() {
            return value;
        }
        match value {
            Value::String(text) => Value::String(self.mask_text(text)),
            Value::Array(items) => {
                Value::Array(items.into_iter().map(|item| self.mask_value(item)).collect())
            }
            Value::Object(fields) => {
                let field = |(name, field)| (self.mask_text(name), self.mask_value(field));
                Value::Object(fields.into_iter().map(field).collect::<Map<_, _>>())
            }
            Value::Number(number) => {
                let text = number.to_string();
                if self.find_secrets(&text).is_empty() {
                    Value::Number(number)
                } else {
                    self.mask_text(text).into()
                }
            }
            value => value,
        }
    }

    fn mask_text(&self, text: String) -> String {
        let found = self.find_secrets(&text);
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
    fn find_secrets(&self, text: &str) -> Vec<(Range<usize>, &str)> {
        if self.forms.is_empty() {
            return Vec::new();
        }
        // Digits of hexadecimal, hosts and what a script converts can be in either case. Every byte stays where it is.
        let text = &text.to_ascii_lowercase();
        // One search for each form: one for all of them would be faster in long texts, and adds 10 KiB to a Worker. A sort of what
        // they find would add 2 KiB.
        let mut searches: Vec<Search<'_, '_>> =
            self.forms.iter().map(|(form, name)| Search::new(text, form, name)).collect();
        searches.extend(self.find_truncated(text));
        let mut found: Vec<(Range<usize>, &str)> = Vec::new();
        // Of those that begin at the same place, the longest is the first.
        let order =
            |search: &&mut Search<'_, '_>| (search.next.unwrap_or(usize::MAX), Reverse(search.form.len()));
        while let Some((range, name)) = searches.iter_mut().min_by_key(order).and_then(Search::next_match) {
            match found.last_mut() {
                Some((last, _)) if range.start < last.end => last.end = last.end.max(range.end),
                _ => found.push((range, name)),
            }
        }
        found
    }

    /// Finds the beginning of a value that the engine has truncated.
    fn find_truncated<'t, 'a>(&'a self, text: &'t str) -> Option<Search<'t, 'a>> {
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
struct Search<'t, 'a> {
    text: &'t str,
    form: &'a str,
    name: &'a str,
    /// Where it occurs next.
    next: Option<usize>,
}

impl<'t, 'a> Search<'t, 'a> {
    fn new(text: &'t str, form: &'a str, name: &'a str) -> Self {
        Search { text, form, name, next: text.find(form) }
    }

    /// Returns what it has found, and searches on. What it finds can overlap.
    fn next_match(&mut self) -> Option<(Range<usize>, &'a str)> {
        let start = self.next?;
        let from = start + self.form.chars().next().map_or(1, char::len_utf8);
        self.next = self.text[from..].find(self.form).map(|at| from + at);
        Some((start..start + self.form.len(), self.name))
    }
}

/// Returns the forms of a value in lowercase: the value itself, and how it is written within JSON, in a URL, as base64 and as
/// hexadecimal.
fn encoded_forms(value: &str) -> Vec<String> {
    let base64 = STANDARD.encode(value);
    let unpadded = base64.trim_end_matches('=').to_owned();
    let in_names = unpadded.replace('+', "-").replace('/', "_");
    let hex = value.bytes().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    });
    let mut forms = vec![percent_encode(value), base64, unpadded, in_names, hex];
    forms.extend(in_url(value));
    let slashes = [escape_json(value), in_ascii(value)].map(|text| text.replace('/', "\\/"));
    for mut text in slashes.into_iter().chain([value.to_owned(), in_ascii(value)]) {
        for _ in 0..LEVELS {
            let escaped = escape_json(&text);
            forms.push(text);
            text = escaped;
        }
        forms.push(text);
    }
    let mut different: Vec<String> = Vec::new();
    for mut form in forms {
        form.make_ascii_lowercase();
        if !different.contains(&form) {
            different.push(form);
        }
    }
    different
}

/// Escapes a value as JSON does.
fn escape_json(value: &str) -> String {
    let json = Value::from(value).to_string();
    json[1..json.len() - 1].to_owned()
}

/// Escapes a value as JSON does for readers that take ASCII only.
fn in_ascii(value: &str) -> String {
    escape_json(value).encode_utf16().fold(String::new(), |mut text, unit| {
        match u8::try_from(unit) {
            Ok(byte) if byte.is_ascii() => text.push(char::from(byte)),
            _ => drop(write!(text, "\\u{unit:04x}")),
        }
        text
    })
}

/// Encodes a value as the URL parser does, in a path and in a query.
fn in_url(value: &str) -> Vec<String> {
    let [path, query] = encode_text(value);
    let parts = [path.strip_prefix('/'), Some(query.as_str())];
    // Dot segments and line breaks are removed, and what is left could be anything.
    parts.into_iter().flatten().filter(|part| part.len() >= value.len()).map(str::to_owned).collect()
}

/// Encodes a value as `encodeURIComponent` does.
fn percent_encode(value: &str) -> String {
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
        let masked = mask.mask_outcome(Reply::ok(&value)).unwrap();
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
        let error = mask.mask_outcome(Err(Error::new(Code::InvalidInput, "no key `123456789`"))).unwrap_err();
        assert_eq!(error.message, "no key `[secret PIN]`");
        assert_eq!(mask.mask_text("x".to_owned() + "123456789"), "x[secret PIN]");
    }

    #[test]
    fn the_case_of_letters_does_not_matter() {
        let mask = mask(&[("KEY", "Sk-a/bC+d-ü1"), ("PIN", "123456789")]);
        for text in [
            "SK-A/BC+D-ü1",
            "sk-a/bc+d-ü1",
            "Sk-a%2FbC%2Bd-%C3%BC1",
            "Sk-a%2fbC%2bd-%c3%bc1",
            "536b2d612f62432b642dc3bc31",
            "536B2D612F62432B642DC3BC31",
            r"Sk-a/bC+d-\u00FC1",
            r"Sk-a\/bC+d-\u00fc1",
            &STANDARD.encode("Sk-a/bC+d-ü1"),
            STANDARD.encode("Sk-a/bC+d-ü1").trim_end_matches('='),
        ] {
            assert_eq!(mask.mask_text(format!("x {text} y")), "x [secret KEY] y", "{text}");
        }
        let name = Mask::new(&[("A".to_owned(), "??>>~~~~1".to_owned())].into_iter().collect());
        assert_eq!(name.mask_text("x Pz8-Pn5-fn4x".to_owned()), "x [secret A]");
        // What stays keeps its case.
        assert_eq!(mask.mask_text("ÄÖ Sk-A 12345678".into()), "ÄÖ Sk-A 12345678");
    }

    #[test]
    fn values_within_json_within_json_are_masked() {
        let value = "-----BEGIN \"KEY\"-----\nä\\b/c";
        let mask = mask(&[("KEY", value)]);
        let mut text = value.to_owned();
        for level in 0..=LEVELS {
            assert_eq!(mask.mask_text(format!("<{text}>")), "<[secret KEY]>", "{level}");
            text = escape_json(&text);
        }
        let python = r#"<-----BEGIN \\\"KEY\\\"-----\\n\\u00E4\\\\b/c>"#;
        assert_eq!(mask.mask_text(python.to_owned()), "<[secret KEY]>");
        let php = r#"<-----BEGIN \"KEY\"-----\nä\\b\/c>"#;
        assert_eq!(mask.mask_text(php.to_owned()), "<[secret KEY]>");
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
        let masked = mask.mask_definition(definition("mine", "uses Long_secret_1")).unwrap();
        let expected = definition("mine", "uses [secret KEY]");
        assert_eq!((masked.description, masked.schema), (expected.description, expected.schema));
        assert!(mask.mask_definition(definition("a_long_secret_1", "")).is_none());
    }

    #[test]
    fn values_that_overlap_are_masked_as_one() {
        let mask = mask(&[("A", "abcdefgh"), ("B", "efghijkl"), ("C", "abcdefghij"), ("D", "zzzzzzzz")]);
        assert_eq!(mask.mask_text("-abcdefghijkl-".into()), "-[secret C]-");
        assert_eq!(mask.mask_text("abcdefghefghijkl".into()), "[secret A][secret B]");
        assert_eq!(mask.mask_text(format!("-{}-", "z".repeat(13))), "-[secret D]-");
    }

    #[test]
    fn the_beginning_of_a_value_that_was_cut_is_masked() {
        let mask = mask(&[("A", "abcdefgh"), ("B", "xyzäöü12")]);
        assert_eq!(mask.mask_text("x abcdef…".into()), "x [secret A]…");
        assert_eq!(mask.mask_text("x xyzä…".into()), "x [secret B]…");
        assert_eq!(mask.mask_text("x abc…".into()), "x abc…");
        assert_eq!(mask.mask_text("x abcdef".into()), "x abcdef");
        let full = "x abcdef\n[the log is full: it has at most 1 MiB and 10000 lines]";
        assert_eq!(mask.mask_text(full.into()), full.replace("abcdef", "[secret A]"));
    }

    #[test]
    fn without_secrets_nothing_changes() {
        assert_eq!(mask(&[("A", "short")]).mask_text("short".into()), "short");
        assert_eq!(Mask::new(&Secrets::default()).mask_value(json!([1])), json!([1]));
    }
}
