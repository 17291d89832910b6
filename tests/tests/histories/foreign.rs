//! The user's part of a configuration: the text without koze's entries.

use std::ops::Range;

use jsonc_parser::ast::{Object, ObjectProp, Value as Json};
use jsonc_parser::common::Ranged as _;
use toml_edit::{Document, Item, TableLike};

use crate::config::Format;

/// Identifies koze's entries: containers and bindings by class, migrations by tag and list (the empty name is the top
/// level), exports by class.
pub(crate) struct Owned<'a> {
    pub(crate) class: &'a dyn Fn(&str) -> bool,
    pub(crate) tag: &'a dyn Fn(&str, &str) -> bool,
}

const MARK: char = '\u{feff}';

/// Compares the user's part of two configurations.
pub(crate) fn compare(format: Format, before: &str, after: &str, owned: &Owned) -> Result<(), String> {
    let (before, after) = match (before.strip_prefix(MARK), after.strip_prefix(MARK)) {
        (Some(before), Some(after)) => (before, after),
        (None, None) => (before, after),
        _ => return Err("the byte order mark came or went".to_owned()),
    };
    let (old, mut new) = (Parts::of(format, before, owned), Parts::of(format, after, owned));
    new.leave_out(after, &old.comments_within(before));
    let (tight_old, tight_new) = (old.tight(before), new.tight(after));
    if tight_old != tight_new {
        return Err(format!("the user's part was\n{tight_old}\nand is\n{tight_new}"));
    }
    // White space counts wherever koze cannot have added or removed entries.
    let bare = |line: &str| line.replace(',', "");
    let mut lines = after.split('\n').map(bare);
    for line in old.untouched(before) {
        if !lines.by_ref().any(|found| found == bare(line)) {
            return Err(format!("the line {line:?} is not there any more"));
        }
    }
    Ok(())
}

#[derive(Default)]
struct Parts {
    /// koze's entries, and the blocks that contain nothing else.
    owned: Vec<Range<usize>>,
    /// The blocks that contain or may contain koze's entries: their white space and commas may change.
    blocks: Vec<Range<usize>>,
}

impl Parts {
    fn of(format: Format, text: &str, owned: &Owned) -> Parts {
        let mut parts = Parts::default();
        match format {
            Format::Jsonc => parts.jsonc(text, owned),
            Format::Toml => parts.toml(text, owned),
        }
        parts
    }

    /// Returns the text without koze's entries, white space and commas.
    fn tight(&self, text: &str) -> String {
        let ours = |at: usize| self.owned.iter().any(|range| range.contains(&at));
        let kept =
            text.char_indices().filter(|(at, char)| !ours(*at) && !char.is_whitespace() && *char != ',');
        kept.map(|(_, char)| char).collect()
    }

    /// Returns the comment lines inside koze's entries.
    fn comments_within<'t>(&self, text: &'t str) -> Vec<&'t str> {
        let is_comment = |line: &str| line.starts_with('#') || line.starts_with("//");
        let ours = self.owned.iter().flat_map(|range| text[range.clone()].lines().map(str::trim));
        ours.filter(|line| is_comment(line)).collect()
    }

    /// Counts comment lines as koze's: an entry's comment is kept when the key before it is removed.
    fn leave_out(&mut self, text: &str, comments: &[&str]) {
        let mut start = 0;
        for line in text.split_inclusive('\n') {
            if comments.contains(&line.trim()) {
                self.owned.push(start..start + line.len());
            }
            start += line.len();
        }
    }

    /// Returns the lines outside all blocks.
    fn untouched<'t>(&self, text: &'t str) -> Vec<&'t str> {
        let mut start = 0;
        let mut lines = Vec::new();
        for line in text.split('\n') {
            let range = start..start + line.len() + 1;
            start = range.end;
            let touches = |block: &Range<usize>| block.start < range.end && range.start < block.end;
            if !line.trim().is_empty() && !self.owned.iter().chain(&self.blocks).any(touches) {
                lines.push(line);
            }
        }
        lines
    }

    fn jsonc(&mut self, text: &str, owned: &Owned) {
        let parsed = jsonc_parser::parse_to_ast(
            text,
            &jsonc_parser::CollectOptions::default(),
            &jsonc_parser::ParseOptions::default(),
        );
        let Some(Json::Object(root)) = parsed.expect("koze and the user write JSONC").value else {
            panic!("a configuration is an object: {text}")
        };
        self.jsonc_level(text, "", &root, owned);
        for environment in root.get_object("env").into_iter().flat_map(|env| &env.properties) {
            if let Json::Object(level) = &environment.value {
                self.jsonc_level(text, environment.name.as_str(), level, owned);
            }
        }
    }

    fn jsonc_level(&mut self, text: &str, name: &str, level: &Object, owned: &Owned) {
        // New properties are inserted before the level's closing brace.
        self.blocks.push(level.range.end - 1..level.range.end);
        let class = |entry: &Json| {
            let class = entry.as_object().and_then(|entry| entry.get_string("class_name"));
            class.is_some_and(|class| (owned.class)(&class.value))
        };
        let tag = |entry: &Json| {
            let tag = entry.as_object().and_then(|entry| entry.get_string("tag"));
            tag.is_some_and(|tag| (owned.tag)(name, &tag.value))
        };
        for (key, ours) in [("containers", &class as &dyn Fn(&Json) -> bool), ("migrations", &tag)] {
            if let Some(list) = level.get(key) {
                self.jsonc_list(text, list, ours);
            }
        }
        if let Some(objects) = level.get("durable_objects") {
            self.blocks.push(range(objects));
            let inner = objects.value.as_object();
            let whole = inner
                .and_then(|inner| inner.get("bindings"))
                .is_some_and(|list| self.jsonc_list(text, list, &class));
            if whole
                && inner.is_some_and(|inner| inner.properties.len() == 1)
                && !has_comment(&without(text, range(objects), self.owned.iter().cloned()))
            {
                self.owned.push(range(objects));
            }
        }
        if let Some(exports) = level.get("exports") {
            self.blocks.push(range(exports));
            let entries = exports.value.as_object().map(|map| map.properties.as_slice()).unwrap_or_default();
            self.owned.extend(entries.iter().filter(|entry| (owned.class)(entry.name.as_str())).map(range));
        }
    }

    /// Returns whether the whole list belongs to koze.
    fn jsonc_list(&mut self, text: &str, list: &ObjectProp, ours: &dyn Fn(&Json) -> bool) -> bool {
        self.blocks.push(range(list));
        let elements = list.value.as_array().map(|list| list.elements.as_slice()).unwrap_or_default();
        let spans = elements.iter().map(|element| element.range().start..element.range().end);
        let whole = elements.iter().all(ours) && !has_comment(&without(text, range(list), spans));
        if whole {
            self.owned.push(range(list));
        } else {
            let ours = elements.iter().filter(|element| ours(element));
            self.owned.extend(ours.map(|element| element.range().start..element.range().end));
        }
        whole
    }

    fn toml(&mut self, text: &str, owned: &Owned) {
        self.toml_tables(text, owned);
        let document = Document::parse(text).expect("koze and the user write TOML");
        self.toml_level(text, "", document.as_table(), owned);
        for (name, item) in
            document.get("env").and_then(Item::as_table_like).into_iter().flat_map(TableLike::iter)
        {
            if let Some(level) = item.as_table_like() {
                self.toml_level(text, name, level, owned);
            }
        }
    }

    /// Handles `[[containers]]` and the like: from the header to the last line before the next header's comments.
    fn toml_tables(&mut self, text: &str, owned: &Owned) {
        let mut lines = Vec::new();
        let mut start = 0;
        for line in text.split_inclusive('\n') {
            lines.push((start, line));
            start += line.len();
        }
        let header = |line: &str| line.trim_start().starts_with('[') && line.contains(']');
        let mut at = 0;
        while at < lines.len() {
            let next = (at + 1..lines.len()).find(|next| header(lines[*next].1)).unwrap_or(lines.len());
            let content = |line: &str| !line.trim().is_empty() && !line.trim_start().starts_with('#');
            let last = (at..next).rev().find(|line| content(lines[*line].1)).unwrap_or(at);
            let block = lines[at].0..lines[last].0 + lines[last].1.len();
            let head = lines[at].1.split('#').next().unwrap_or_default().trim();
            let path = head.trim_matches(|char| char == '[' || char == ']');
            let (environment, key) = match path.strip_prefix("env.").and_then(|rest| rest.split_once('.')) {
                Some(split) => split,
                None => ("", path),
            };
            let value = |of: &str| {
                let line = text[block.clone()].lines().find(|line| line.trim_start().starts_with(of))?;
                line.split('"').nth(1).map(str::to_owned)
            };
            let ours = match key {
                "containers" | "durable_objects.bindings" => {
                    value("class_name").is_some_and(|class| (owned.class)(&class))
                }
                "migrations" => value("tag").is_some_and(|tag| (owned.tag)(environment, &tag)),
                _ => key.strip_prefix("exports.").is_some_and(|class| (owned.class)(class)),
            };
            if header(lines[at].1) && ours {
                self.owned.push(block);
            } else if header(lines[at].1) && key == "durable_objects" {
                // koze may have created the table, and removes it with its last binding.
                self.owned.push(lines[at].0..lines[at].0 + lines[at].1.len());
            }
            at = next;
        }
    }

    /// Handles inline lists and maps.
    fn toml_level(&mut self, text: &str, name: &str, level: &dyn TableLike, owned: &Owned) {
        let class = |entry: &toml_edit::Value| {
            let class = entry.as_inline_table().and_then(|entry| entry.get("class_name")?.as_str());
            class.is_some_and(|class| (owned.class)(class))
        };
        let tag = |entry: &toml_edit::Value| {
            let tag = entry.as_inline_table().and_then(|entry| entry.get("tag")?.as_str());
            tag.is_some_and(|tag| (owned.tag)(name, tag))
        };
        self.toml_list(text, level, "containers", &class);
        self.toml_list(text, level, "migrations", &tag);
        if let Some(objects) = level.get("durable_objects").and_then(Item::as_table_like) {
            self.toml_list(text, objects, "bindings", &class);
        }
        if let (Some(key), Some(value)) = (
            level.key("exports").and_then(toml_edit::Key::span),
            level.get("exports").and_then(Item::as_value),
        ) {
            self.blocks.push(key.start..value.span().map_or(key.end, |span| span.end));
        }
        let exports = level.get("exports").and_then(Item::as_table_like);
        if let Some((exports, entries)) = exports.map(|exports| (exports, exports.iter())) {
            for (key, item) in entries.filter(|(key, item)| item.is_value() && (owned.class)(key)) {
                if let (Some(key), Some(value)) =
                    (exports.key(key).and_then(toml_edit::Key::span), item.span())
                {
                    // A dotted key starts with `exports.`.
                    let line = text[..key.start].rfind('\n').map_or(0, |end| end + 1);
                    let before = &text[line..key.start];
                    let dotted = before.trim_start().starts_with("exports") && !before.contains('=');
                    self.owned.push(if dotted { line } else { key.start }..value.end);
                }
            }
        }
    }

    fn toml_list(
        &mut self,
        text: &str,
        table: &dyn TableLike,
        key: &str,
        ours: &dyn Fn(&toml_edit::Value) -> bool,
    ) {
        let Some(array) = table.get(key).and_then(Item::as_array) else { return };
        let (Some(name), Some(span)) = (table.key(key).and_then(toml_edit::Key::span), array.span()) else {
            return;
        };
        let whole = name.start..span.end;
        self.blocks.push(whole.clone());
        let spans = array.iter().filter_map(toml_edit::Value::span);
        if array.iter().all(ours) && !has_comment(&without(text, whole.clone(), spans)) {
            self.owned.push(whole);
        } else {
            let spans = array.iter().filter(|entry| ours(entry)).filter_map(toml_edit::Value::span);
            self.owned.extend(spans.map(|span| span.start..span.end));
        }
    }
}

/// Returns a part of a text without some ranges.
fn without(text: &str, range: Range<usize>, inner: impl Iterator<Item = Range<usize>>) -> String {
    let inner: Vec<_> = inner.collect();
    let part = text[range.clone()].char_indices();
    let kept = part.filter(|(at, _)| !inner.iter().any(|inner| inner.contains(&(range.start + at))));
    kept.map(|(_, char)| char).collect()
}

fn range(prop: &ObjectProp) -> Range<usize> {
    prop.range.start..prop.range.end
}

/// Returns whether a block may contain a user's comment. Images contain `/`, too, but never two in a row.
fn has_comment(text: &str) -> bool {
    ["//", "/*", "#"].iter().any(|sign| text.contains(sign))
}
