//! Renders new values as TOML text.

use serde_json::{Map, Number, Value};

use crate::plan::{Members, New};

/// Renders a key, bare if possible.
pub(super) fn key(key: &str) -> String {
    let bare =
        !key.is_empty() && key.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte));
    if bare { key.to_owned() } else { string(key) }
}

/// Joins keys with dots.
pub(super) fn dotted(keys: &[String]) -> String {
    keys.iter().map(|name| key(name)).collect::<Vec<_>>().join(".")
}

/// Renders a string. All JSON escapes are valid in TOML, which also requires one for DEL.
fn string(text: &str) -> String {
    Value::from(text).to_string().replace('\u{7f}', "\\u007f")
}

/// Renders a number. An integer that does not fit TOML's signed 64 bits becomes a float.
fn number(number: &Number) -> String {
    match (number.as_i64(), number.as_f64()) {
        (None, Some(float)) => Value::from(float).to_string(),
        _ => number.to_string(),
    }
}

/// Renders a value on one line. Nulls inside it are left out.
pub(super) fn inline(value: &Value) -> String {
    match value {
        Value::Null => string(""),
        Value::Bool(bool) => bool.to_string(),
        Value::Number(value) => number(value),
        Value::String(text) => string(text),
        Value::Array(array) => {
            let elements: Vec<_> = array.iter().filter(|value| !value.is_null()).map(inline).collect();
            format!("[{}]", elements.join(", "))
        }
        Value::Object(object) => {
            let lines = lines(object);
            if lines.is_empty() { "{}".to_owned() } else { format!("{{ {} }}", lines.join(", ")) }
        }
    }
}

/// Renders `key = value` for each property.
pub(super) fn lines(object: &Map<String, Value>) -> Vec<String> {
    let some = object.iter().filter(|(_, value)| !value.is_null());
    some.map(|(name, value)| format!("{} = {}", key(name), inline(value))).collect()
}

/// Renders a header with its properties.
pub(super) fn section(open: &str, path: &[String], close: &str, lines: &[String], newline: &str) -> String {
    let mut text = format!("{open}{}{close}", dotted(path));
    for line in lines {
        text += newline;
        text += line;
    }
    text
}

/// The rendered new properties of a table.
#[derive(Default)]
pub(super) struct Rendered {
    /// `key = value` lines for the table's own section.
    pub(super) lines: Vec<String>,
    /// Separate sections.
    pub(super) sections: Vec<String>,
}

/// Renders new properties of the table `path`: objects and arrays of objects as sections, the rest as lines.
pub(super) fn members<'m>(
    members: impl Iterator<Item = (&'m str, &'m New)>,
    path: &mut Vec<String>,
    newline: &str,
) -> Rendered {
    let mut rendered = Rendered::default();
    for (name, new) in members {
        let (tables, object) = match new {
            New::Parent(inner) => {
                path.push(name.to_owned());
                let inner = nested(inner, path, newline);
                if !inner.lines.is_empty() || inner.sections.is_empty() {
                    rendered.sections.push(section("[", path, "]", &inner.lines, newline));
                }
                rendered.sections.extend(inner.sections);
                path.pop();
                continue;
            }
            New::Value(Value::Null) => continue,
            New::Value(Value::Object(object)) => (None, Some(object)),
            New::Value(Value::Array(array)) | New::Array(array) => (Some(array), None),
            New::Value(_) => (None, None),
        };
        path.push(name.to_owned());
        match (tables.filter(|tables| of_tables(tables)), object) {
            (Some(tables), _) => {
                let objects = tables.iter().filter_map(Value::as_object);
                rendered
                    .sections
                    .extend(objects.map(|object| section("[[", path, "]]", &lines(object), newline)));
            }
            (_, Some(object)) => {
                rendered.sections.push(section("[", path, "]", &lines(object), newline));
            }
            _ => rendered.lines.push(format!("{} = {}", key(name), inline(&new.to_value()))),
        }
        path.pop();
    }
    rendered
}

/// Recurses. A named return type breaks the cycle of [`members`]'s opaque iterator types.
fn nested(inner: &Members, path: &mut Vec<String>, newline: &str) -> Rendered {
    let inner: Box<dyn Iterator<Item = _>> = Box::new(inner.iter());
    members(inner, path, newline)
}

/// Returns whether an array can be written as an array of tables.
pub(super) fn of_tables(array: &[Value]) -> bool {
    !array.is_empty() && array.iter().all(Value::is_object)
}
