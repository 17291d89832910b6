//! Renders new values as JSON text.

use serde_json::Value;

/// The maximum length in bytes of an array of scalars that is written on one line although lines are available.
const SHORT: usize = 72;

/// How a file writes values.
pub(super) struct Render<'a> {
    pub(super) newline: &'a str,
    /// One level of indentation.
    pub(super) unit: &'a str,
    /// Whether to write a comma after the last entry of a list that is spread over lines.
    pub(super) trailing: bool,
}

impl Render<'_> {
    /// Renders `value`. With `lines`, spreads it over lines, of which all but the first start with `indent`.
    pub(super) fn value(&self, out: &mut String, value: &Value, indent: &str, lines: bool) {
        match value {
            Value::Object(object) if !object.is_empty() => {
                let entries = object.iter().map(|(key, value)| (Some(key.as_str()), value));
                self.list(out, "{", "}", entries, indent, lines);
            }
            Value::Array(array) if !array.is_empty() => {
                let flat = array.iter().all(|value| !value.is_array() && !value.is_object());
                let entries = array.iter().map(|value| (None, value));
                let start = out.len();
                if flat || !lines {
                    self.list(out, "[", "]", entries.clone(), indent, false);
                }
                if lines && (!flat || out.len() - start > SHORT && array.len() > 1) {
                    out.truncate(start);
                    self.list(out, "[", "]", entries, indent, true);
                }
            }
            value => *out += &value.to_string(),
        }
    }

    fn list<'v>(
        &self,
        out: &mut String,
        open: &str,
        close: &str,
        entries: impl Iterator<Item = (Option<&'v str>, &'v Value)>,
        indent: &str,
        lines: bool,
    ) {
        let inner = format!("{indent}{}", self.unit);
        // An object on one line has spaces inside its braces, an array does not.
        let pad = if open == "{" { " " } else { "" };
        *out += open;
        for (count, (key, value)) in entries.enumerate() {
            *out += if count > 0 { "," } else { "" };
            match (lines, count) {
                (true, _) => {
                    *out += self.newline;
                    *out += &inner;
                }
                (false, 0) => *out += pad,
                (false, _) => out.push(' '),
            }
            if let Some(key) = key {
                *out += &Value::from(key).to_string();
                *out += ": ";
            }
            self.value(out, value, &inner, lines);
        }
        if lines {
            *out += if self.trailing { "," } else { "" };
            *out += self.newline;
            *out += indent;
        } else {
            *out += pad;
        }
        *out += close;
    }
}
