//! The user's hand-written configuration and edits.

use std::fmt::Write as _;

use jsonc_parser::ast::{Object, Value as Json};
use serde_json::Value;

use crate::config::Format;

/// How the project declares its classes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Migrations,
    Exports,
}

/// Returns the configuration before the first build; each bit of `dice` makes a choice.
pub(crate) fn seed(mode: Mode, format: Format, dice: u16) -> String {
    let bit = |number: u16| dice & (1 << number) != 0;
    // An empty `exports` would not select this mode.
    let own = bit(0) || mode == Mode::Exports;
    let text = match format {
        Format::Jsonc => jsonc(mode, own, &bit),
        Format::Toml => toml(mode, own, &bit),
    };
    let text = if bit(7) { text.replace('\n', "\r\n") } else { text };
    if bit(8) { format!("\u{feff}{text}") } else { text }
}

fn jsonc(mode: Mode, own: bool, bit: &dyn Fn(u16) -> bool) -> String {
    let mut text = "{\n  // The Worker of the team. @top\n  \"name\": \"app\",\n  \"main\": \"src/generated/worker.mjs\", /* as koze says */\n  \"compatibility_date\": \"2026-04-21\",\n  \"vars\": {\n    // @vars\n    \"GREETING\":   \"grüß // dich\"\n  }".to_owned();
    let (binding, remote) = (
        r#"{ "name": "OWN_0", "class_name": "Own0" }"#,
        r#"{ "name": "EXT", "class_name": "Remote", "script_name": "other" }"#,
    );
    match (own, bit(1)) {
        (true, true) => write!(text, ",\n  \"durable_objects\": {{ \"bindings\": [{binding}, {remote}] }}"),
        (true, false) => write!(text, ",\n  \"durable_objects\": {{\n    \"bindings\": [\n      {binding}, // the counter\n      {remote},\n    ]\n  }}"),
        (false, true) => write!(text, ",\n  \"durable_objects\": {{ \"bindings\": [{remote}] }}"),
        (false, false) => Ok(()),
    }
    .expect("a string takes all");
    if own && bit(2) {
        text += ",\n  \"containers\": [\n    // Not koze's.\n    { \"name\": \"own\",   \"class_name\": \"Own0\", \"image\": \"docker.io/library/nginx:1.27\" }\n  ]";
    }
    match (mode, own, bit(3)) {
        (Mode::Exports, _, true) => {
            text +=
                ",\n  \"exports\": { \"Own0\": { \"type\": \"durable-object\", \"storage\": \"sqlite\" } }";
        }
        (Mode::Exports, _, false) => {
            text += ",\n  \"exports\": {\n    // Ours.\n    \"Own0\": { \"type\": \"durable-object\", \"storage\": \"sqlite\" },\n  }";
        }
        (Mode::Migrations, true, true) => {
            text += ",\n  \"migrations\": [{ \"tag\": \"v1\", \"new_sqlite_classes\": [\"Own0\"] }]";
        }
        (Mode::Migrations, true, false) => {
            text += ",\n  \"migrations\": [\n    // Never edit one.\n    {\n      \"tag\": \"first\",\n      \"new_sqlite_classes\": [\"Own0\"]\n    }\n  ]";
        }
        (Mode::Migrations, false, true) => text += ",\n  \"migrations\": []",
        (Mode::Migrations, false, false) => {}
    }
    if bit(4) {
        text +=
            ",\n  \"env\": {\n    // @env\n    \"e0\": {\n      \"vars\": { \"STAGE\": \"e0\" }\n    }\n  }";
    }
    text += if bit(5) { ",\n}\n" } else { "\n}\n" };
    text
}

fn toml(mode: Mode, own: bool, bit: &dyn Fn(u16) -> bool) -> String {
    let mut text = "# The Worker of the team. @top\nname = \"app\"   # never rename\nmain = \"src/generated/worker.mjs\"\ncompatibility_date = \"2026-04-21\"\n".to_owned();
    let inline = bit(3);
    if mode == Mode::Migrations && own && inline {
        text += "migrations = [{ tag = \"v1\", new_sqlite_classes = [\"Own0\"] }]\n";
    }
    if mode == Mode::Exports && inline {
        text += "exports.Own0 = { type = \"durable-object\", storage = \"sqlite\" }\n";
    }
    text += "\n[vars]\n# @vars\nGREETING =   'grüß # dich'\n";
    if own && bit(2) {
        text += "\n# Not koze's.\n[[containers]]\nname = \"own\"\nclass_name = \"Own0\"\nimage = \"docker.io/library/nginx:1.27\"\n";
    }
    if own && bit(1) {
        text += "\n[durable_objects]\nbindings = [\n    { name = \"OWN_0\", class_name = \"Own0\" }, # the counter\n    { name = \"EXT\", class_name = \"Remote\", script_name = \"other\" },\n]\n";
    } else if own {
        text += "\n[[durable_objects.bindings]]\nname = \"OWN_0\"\nclass_name = \"Own0\"\n";
    }
    if mode == Mode::Migrations && own && !inline {
        text += "\n# Never edit one.\n[[migrations]]\ntag = \"first\"\nnew_sqlite_classes = [\"Own0\"]\n";
    }
    if mode == Mode::Exports && !inline {
        text += "\n[exports.Own0]\ntype = \"durable-object\"\nstorage = \"sqlite\" # for good\n";
    }
    if bit(4) {
        text += "\n[env.e0]\n# Nobody knows why.\nvars = { STAGE = \"e0\" }\n";
    }
    if bit(5) {
        text += "\n[observability]\nenabled = true\n# The end.\n";
    }
    text
}

/// An editor of the configuration.
pub(crate) struct Hand<'a> {
    pub(crate) format: Format,
    pub(crate) text: &'a str,
}

impl Hand<'_> {
    /// Inserts a line after the one with a mark, if there is one.
    pub(crate) fn after_mark(&self, mark: &str, line: &str) -> Option<String> {
        let at = self.text.find(mark)?;
        let end = at + self.text[at..].find('\n')? + 1;
        Some(format!("{}{line}{}{}", &self.text[..end], self.newline(), &self.text[end..]))
    }

    /// Inserts a line before any line but the first.
    pub(crate) fn anywhere(&self, place: u8, line: &str) -> Option<String> {
        let starts: Vec<usize> = self.text.match_indices('\n').map(|(at, _)| at + 1).collect();
        // The last line may lack a line ending.
        let at = *starts.get(usize::from(place) % starts.len().max(1))?;
        Some(format!("{}{line}{}{}", &self.text[..at], self.newline(), &self.text[at..]))
    }

    /// Doubles the indentation.
    pub(crate) fn indented(&self) -> String {
        let double = |line: &str| {
            let indent = line.len() - line.trim_start_matches(' ').len();
            format!("{}{line}", " ".repeat(indent.min(12)))
        };
        self.text.split('\n').map(double).collect::<Vec<_>>().join("\n")
    }

    /// Converts between LF and CRLF.
    pub(crate) fn other_line_ends(&self) -> String {
        if self.text.contains("\r\n") {
            self.text.replace("\r\n", "\n")
        } else {
            self.text.replace('\n', "\r\n")
        }
    }

    fn newline(&self) -> &'static str {
        if self.text.contains("\r\n") { "\r\n" } else { "\n" }
    }

    /// Appends an entry to a list at a level.
    pub(crate) fn push(&self, environment: &str, list: &[&str], entry: &Value) -> Option<String> {
        match self.format {
            Format::Jsonc => {
                let path: Vec<&str> = if environment.is_empty() {
                    list.to_vec()
                } else {
                    [&["env", environment], list].concat()
                };
                self.jsonc_push(&path, entry)
            }
            Format::Toml => {
                let prefix =
                    if environment.is_empty() { String::new() } else { format!("env.{environment}.") };
                let mut text = format!("{}{}", self.text, self.newline());
                write!(text, "[[{prefix}{}]]{}", list.join("."), self.newline()).ok()?;
                for (key, value) in entry.as_object()? {
                    write!(text, "{key} = {}{}", toml_value(value), self.newline()).ok()?;
                }
                Some(text)
            }
        }
    }

    fn jsonc_push(&self, path: &[&str], entry: &Value) -> Option<String> {
        let (key, outer) = path.split_last()?;
        self.with_object(outer, |object| match object.get(key).map(|prop| &prop.value) {
            Some(Json::Array(list)) => match list.elements.last() {
                Some(element) => {
                    let end = jsonc_parser::common::Ranged::range(element).end;
                    Some((end..end, format!(",\n      {entry}")))
                }
                None => Some((list.range.start + 1..list.range.start + 1, entry.to_string())),
            },
            Some(_) => None,
            None => {
                let start = object.range.start + 1;
                let comma = if object.properties.is_empty() { "" } else { "," };
                Some((start..start, format!("\n    \"{key}\": [{entry}]{comma}")))
            }
        })
    }

    /// Inserts a member at the start of an object.
    pub(crate) fn member(&self, path: &[&str], key: &str, value: &Value) -> Option<String> {
        match self.format {
            Format::Jsonc => self.with_object(path, |object| {
                let start = object.range.start + 1;
                let comma = if object.properties.is_empty() { "" } else { "," };
                Some((start..start, format!("\n    \"{key}\": {value}{comma}")))
            }),
            Format::Toml => {
                let header = [path, &[key]].concat().join(".");
                let mut text = format!("{}{}[{header}]{}", self.text, self.newline(), self.newline());
                for (key, value) in value.as_object()? {
                    write!(text, "{key} = {}{}", toml_value(value), self.newline()).ok()?;
                }
                Some(text)
            }
        }
    }

    /// Removes the entries for a class from a level's containers and bindings.
    pub(crate) fn without_class(&self, environment: &str, class: &str) -> Option<String> {
        let outer: Vec<&str> = if environment.is_empty() { Vec::new() } else { vec!["env", environment] };
        let mut text = self.text.to_owned();
        for list in [&["containers"][..], &["durable_objects", "bindings"]] {
            let path = [&outer, list].concat();
            // Remove one at a time, because each removal moves the others.
            while let Some(less) = (Hand { format: self.format, text: &text }).without_one(&path, class) {
                text = less;
            }
        }
        (text != self.text).then_some(text)
    }

    fn without_one(&self, path: &[&str], class: &str) -> Option<String> {
        let (key, outer) = path.split_last()?;
        match self.format {
            Format::Jsonc => self.with_object(outer, |object| {
                let list = object.get_array(key)?;
                let names = |entry: &&Json| {
                    let class_name = entry.as_object().and_then(|entry| entry.get_string("class_name"));
                    class_name.is_some_and(|name| name.value == class)
                };
                let range = jsonc_parser::common::Ranged::range(list.elements.iter().find(names)?);
                let before = self.text.get(..range.start)?.trim_end();
                let behind = self.text.get(range.end..)?;
                Some(if behind.trim_start().starts_with(',') {
                    (range.start..range.end + behind.find(',')? + 1, String::new())
                } else if before.ends_with(',') {
                    (before.len() - 1..range.end, String::new())
                } else {
                    (range.start..range.end, String::new())
                })
            }),
            Format::Toml => {
                let mut document = self.text.parse::<toml_edit::DocumentMut>().ok()?;
                let mut table: &mut dyn toml_edit::TableLike = document.as_table_mut();
                for outer in outer {
                    table = table.get_mut(outer)?.as_table_like_mut()?;
                }
                let names = |entry: &dyn toml_edit::TableLike| {
                    entry.get("class_name").and_then(toml_edit::Item::as_str) == Some(class)
                };
                match table.get_mut(key)? {
                    toml_edit::Item::ArrayOfTables(tables) => {
                        let index = tables.iter().position(|entry| names(entry))?;
                        tables.remove(index);
                    }
                    item => {
                        let array = item.as_array_mut()?;
                        let index = array
                            .iter()
                            .position(|entry| entry.as_inline_table().is_some_and(|entry| names(entry)))?;
                        array.remove(index);
                    }
                }
                Some(document.to_string())
            }
        }
    }

    /// Removes an environment.
    pub(crate) fn without_environment(&self, name: &str) -> Option<String> {
        match self.format {
            Format::Jsonc => self.with_object(&["env"], |env| {
                let prop = env.get(name)?;
                let behind = self.text.get(prop.range.end..)?;
                let comma = behind.trim_start().starts_with(',').then(|| behind.find(',')).flatten();
                let before = self.text.get(..prop.range.start)?.trim_end();
                let start = if comma.is_none() && before.ends_with(',') {
                    before.len() - 1
                } else {
                    prop.range.start
                };
                Some((start..prop.range.end + comma.map_or(0, |at| at + 1), String::new()))
            }),
            Format::Toml => {
                let mut document = self.text.parse::<toml_edit::DocumentMut>().ok()?;
                document.get_mut("env")?.as_table_like_mut()?.remove(name)?;
                Some(document.to_string())
            }
        }
    }

    fn with_object(
        &self,
        path: &[&str],
        edit: impl FnOnce(&Object) -> Option<(std::ops::Range<usize>, String)>,
    ) -> Option<String> {
        let parsed = jsonc_parser::parse_to_ast(
            self.text,
            &jsonc_parser::CollectOptions::default(),
            &jsonc_parser::ParseOptions::default(),
        );
        let value = parsed.ok()?.value?;
        let mut object = value.as_object()?;
        for key in path {
            object = object.get_object(key)?;
        }
        let (range, new) = edit(object)?;
        let mut text = self.text.to_owned();
        text.replace_range(range, &new);
        Some(text)
    }
}

fn toml_value(value: &Value) -> String {
    match value {
        Value::Array(list) => format!("[{}]", list.iter().map(toml_value).collect::<Vec<_>>().join(", ")),
        Value::Object(map) => {
            let entries: Vec<_> =
                map.iter().map(|(key, value)| format!("{key} = {}", toml_value(value))).collect();
            format!("{{ {} }}", entries.join(", "))
        }
        scalar => scalar.to_string(),
    }
}
