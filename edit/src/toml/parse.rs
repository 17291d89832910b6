//! Parses a text to a tree with `toml_edit`.

use std::collections::BTreeMap;
use std::ops::Range;

use serde_json::{Map, Number, Value};
use toml_edit::{InlineTable, Item as TomlItem, Key, Table, Value as TomlValue};

use super::layout::{Home, Layout, Section};
use crate::error::SyntaxError;
use crate::list::{Item, List};
use crate::parsed::Parsed;
use crate::source::{Comment, Source, mark};
use crate::tree::{Id, Kind, Tree};

/// Parses `text`.
pub(crate) fn parse(text: String) -> Result<Parsed<Layout>, SyntaxError> {
    let parsed = toml_edit::Document::parse(text.as_str()).map_err(|error| SyntaxError {
        range: error.span().unwrap_or(text.len()..text.len()),
        message: error.message().to_owned(),
    })?;
    let mut builder = Builder { text: &text, ..Builder::default() };
    let root = builder.tree.add(None, None, 0..text.len(), Kind::object());
    builder.homes.push(Home::Section);
    builder.sections.insert(root, Section::default());
    let value = builder.table(root, root, parsed.as_table());
    let Builder { tree, homes, sections, lists, comments, .. } = builder;
    let source = Source::new(text, comments);
    Ok(Parsed { source, tree, value, layout: Layout { homes, sections, lists, last: None } })
}

#[derive(Default)]
struct Builder<'t> {
    text: &'t str,
    tree: Tree,
    homes: Vec<Home>,
    sections: BTreeMap<Id, Section>,
    lists: BTreeMap<Id, List>,
    comments: Vec<Comment>,
}

impl Builder<'_> {
    /// Adds the value `name`, or the next element, to `parent`.
    fn add(
        &mut self,
        parent: Id,
        key: Option<&Key>,
        range: Option<Range<usize>>,
        kind: Kind,
        home: Home,
    ) -> Id {
        let place = key.and_then(Key::span);
        let name = key.map(|key| (key.get().to_owned(), place.clone().unwrap_or_default()));
        let id = self.tree.add(Some(parent), name, range.or(place).unwrap_or_default(), kind);
        self.homes.push(home);
        id
    }

    /// Adds the contents of a table. `section` is the one that contains its lines.
    fn table(&mut self, id: Id, section: Id, table: &Table) -> Value {
        let mut object = Map::new();
        for (name, item) in table {
            let key = table.key(name);
            let value = match item {
                TomlItem::None => continue,
                TomlItem::Value(value) => self.line(id, section, key, value),
                TomlItem::Table(inner) if inner.is_dotted() => {
                    let child = self.add(id, key, inner.span(), Kind::object(), Home::Dotted(section));
                    self.table(child, section, inner)
                }
                TomlItem::Table(inner) if inner.is_implicit() => {
                    let child = self.add(id, key, inner.span(), Kind::object(), Home::Implied);
                    self.table(child, section, inner)
                }
                TomlItem::Table(inner) => self.section(id, key, inner),
                TomlItem::ArrayOfTables(tables) => {
                    let child = self.add(id, key, tables.span(), Kind::Array(Vec::new()), Home::Implied);
                    tables.iter().map(|inner| self.section(child, None, inner)).collect()
                }
            };
            object.insert(name.to_owned(), value);
        }
        Value::Object(object)
    }

    fn section(&mut self, parent: Id, key: Option<&Key>, table: &Table) -> Value {
        let id = self.add(parent, key, table.span(), Kind::object(), Home::Section);
        self.sections.insert(id, Section { header: table.span(), last: None });
        self.table(id, id, table)
    }

    /// Adds a `key = value` line.
    fn line(&mut self, parent: Id, section: Id, key: Option<&Key>, value: &TomlValue) -> Value {
        let place = key.and_then(Key::span).unwrap_or_default().start;
        let end = value.span().map_or(place, |span| span.end);
        let line_start = self.text[..place].rfind('\n').map_or(mark(self.text), |nl| nl + 1);
        let blanks = self.text[line_start..place].len()
            - self.text[line_start..place].trim_start_matches([' ', '\t']).len();
        let start = line_start + blanks;
        if let Some(section) = self.sections.get_mut(&section)
            && section.last.as_ref().is_none_or(|last| last.end < end)
        {
            section.last = Some(start..end);
        }
        self.value(parent, key, value, Home::Line(start))
    }

    /// Adds a value that is written after a `=` or in an array.
    fn value(&mut self, parent: Id, key: Option<&Key>, value: &TomlValue, home: Home) -> Value {
        let range = value.span().unwrap_or_default();
        match value {
            TomlValue::Array(array) => {
                let id = self.add(parent, key, Some(range.clone()), Kind::Array(Vec::new()), home);
                let mut items = Vec::new();
                let values = array
                    .iter()
                    .map(|value| {
                        items.push((self.tree.len(), value.span().unwrap_or_default()));
                        self.value(id, None, value, Home::Item(id))
                    })
                    .collect();
                self.list(id, &range, items);
                values
            }
            TomlValue::InlineTable(table) => {
                let id = self.add(parent, key, Some(range.clone()), Kind::object(), home);
                let mut items = Vec::new();
                let value = self.inline_table(id, id, table, &mut items);
                self.list(id, &range, items);
                value
            }
            scalar => {
                self.add(parent, key, Some(range), Kind::Scalar, home);
                plain(scalar)
            }
        }
    }

    /// Adds the contents of an inline table, and collects its entries: one for each dotted key.
    fn inline_table(
        &mut self,
        id: Id,
        owner: Id,
        table: &InlineTable,
        items: &mut Vec<(Id, Range<usize>)>,
    ) -> Value {
        let mut object = Map::new();
        for (name, value) in table {
            let key = table.key(name);
            let value = match value {
                TomlValue::InlineTable(inner) if inner.is_dotted() => {
                    let child = self.add(id, key, inner.span(), Kind::object(), Home::Dotted(owner));
                    self.inline_table(child, owner, inner, items)
                }
                value => {
                    items.push((self.tree.len(), value.span().unwrap_or_default()));
                    self.value(id, key, value, Home::Item(owner))
                }
            };
            object.insert(name.to_owned(), value);
        }
        Value::Object(object)
    }

    /// Finds the entries, commas and comments between brackets.
    fn list(&mut self, id: Id, range: &Range<usize>, mut values: Vec<(Id, Range<usize>)>) {
        values.sort_by_key(|(_, value)| value.start);
        let mut list =
            List { open: range.start + 1, close: range.end - 1, items: Vec::with_capacity(values.len()) };
        let mut place = list.open;
        for (id, value) in values {
            let start = self.skip(place);
            let next = self.skip(value.end);
            let comma = self.text[next..].starts_with(',').then_some(next);
            place = comma.map_or(next, |comma| comma + 1);
            list.items.push(Item { id, start, value, comma });
        }
        self.skip(place);
        self.lists.insert(id, list);
    }

    /// Returns the end of the white space and comments that start at `place`.
    fn skip(&mut self, mut place: usize) -> usize {
        loop {
            place = self.text.len() - self.text[place..].trim_start_matches([' ', '\t', '\r', '\n']).len();
            if !self.text[place..].starts_with('#') {
                return place;
            }
            let start = place;
            place = line_end(self.text, place);
            self.comments.push(Comment { range: start..place, line: true });
        }
    }
}

fn line_end(text: &str, place: usize) -> usize {
    let end = text[place..].find('\n').map_or(text.len(), |length| place + length);
    if text[place..end].ends_with('\r') { end - 1 } else { end }
}

fn plain(value: &TomlValue) -> Value {
    match value {
        TomlValue::String(string) => Value::from(string.value().as_str()),
        TomlValue::Integer(integer) => Value::from(*integer.value()),
        TomlValue::Float(float) => Number::from_f64(*float.value())
            .map_or_else(|| Value::from(float.value().to_string().to_lowercase()), Value::Number),
        TomlValue::Boolean(bool) => Value::Bool(*bool.value()),
        TomlValue::Datetime(datetime) => Value::from(datetime.value().to_string()),
        TomlValue::Array(_) | TomlValue::InlineTable(_) => unreachable!("a container is no scalar"),
    }
}
