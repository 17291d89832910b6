//! Reads a lock in the form in which koze writes it, many times as fast as any TOML: the lock of a thousand sandboxes has
//! tens of thousands of lines. Every other form is left to the TOML parser, and so are errors.

use serde::de::value::{Error, MapDeserializer, SeqDeserializer};
use serde::de::{DeserializeOwned, Deserializer, IntoDeserializer, Visitor};
use serde::forward_to_deserialize_any;

/// Reads a lock. Returns `None` if it is in another form, or is not a `T`.
pub(super) fn read_lock<T: DeserializeOwned>(text: &str) -> Option<T> {
    let mut root = Table::default();
    let mut lines = text.lines();
    let mut path = Path::Root;
    loop {
        let (table, next) = parse_table(&mut lines)?;
        root.attach_table(&path, table)?;
        match next {
            Some(header) => path = header,
            None => break,
        }
    }
    T::deserialize(Item::Table(root)).ok()
}

/// Where a table belongs.
enum Path<'t> {
    Root,
    /// `[[name]]`
    Element(&'t str),
    /// `[one.two]`
    Keys(Vec<&'t str>),
}

/// A value.
enum Item<'t> {
    Number(u64),
    Text(&'t str),
    List(Vec<&'t str>),
    Table(Table<'t>),
    Tables(Vec<Table<'t>>),
}

/// The keys of a table, which are few, and their values.
#[derive(Default)]
struct Table<'t>(Vec<(&'t str, Item<'t>)>);

impl<'t> Table<'t> {
    fn get_mut(&mut self, key: &str) -> Option<&mut Item<'t>> {
        self.0.iter_mut().find(|(present, _)| *present == key).map(|(_, item)| item)
    }

    /// Inserts a new key.
    fn insert(&mut self, key: &'t str, item: Item<'t>) -> Option<()> {
        if self.get_mut(key).is_some() {
            return None;
        }
        self.0.push((key, item));
        Some(())
    }

    /// Adds a table at a path below this one, which is the root.
    fn attach_table(&mut self, path: &Path<'t>, table: Table<'t>) -> Option<()> {
        match path {
            Path::Root => {
                *self = table;
                Some(())
            }
            Path::Element(name) => match self.get_mut(name) {
                Some(Item::Tables(tables)) => {
                    tables.push(table);
                    Some(())
                }
                Some(_) => None,
                None => self.insert(name, Item::Tables(vec![table])),
            },
            Path::Keys(keys) => {
                let (last, above) = keys.split_last()?;
                let parent = above.iter().try_fold(self, |table, key| table.get_or_insert(key))?;
                parent.insert(last, Item::Table(table))
            }
        }
    }

    /// Returns the table at a key. Creates it if it is missing.
    fn get_or_insert(&mut self, key: &'t str) -> Option<&mut Table<'t>> {
        if self.get_mut(key).is_none() {
            self.insert(key, Item::Table(Table::default()))?;
        }
        match self.get_mut(key)? {
            Item::Table(table) => Some(table),
            Item::Tables(tables) => tables.last_mut(),
            _ => None,
        }
    }
}

/// Reads the lines of a table, up to the next header. Returns the header, if there is one.
fn parse_table<'t>(lines: &mut std::str::Lines<'t>) -> Option<(Table<'t>, Option<Path<'t>>)> {
    let mut table = Table::default();
    while let Some(line) = lines.next() {
        if line.is_empty() || (line.starts_with('#') && is_plain(line)) {
            continue;
        }
        if let Some(header) = line.strip_prefix('[') {
            return Some((table, Some(parse_header(header)?)));
        }
        let (key, value) = line.split_once(" = ")?;
        table.insert(parse_key(key)?, parse_item(value, lines)?)?;
    }
    Some((table, None))
}

/// Reads a header behind its first bracket.
fn parse_header(header: &str) -> Option<Path<'_>> {
    match header.strip_prefix('[') {
        Some(element) => Some(Path::Element(parse_key(element.strip_suffix("]]")?)?)),
        None => Some(Path::Keys(header.strip_suffix(']')?.split('.').map(parse_key).collect::<Option<_>>()?)),
    }
}

/// Reads a value, with the lines of a list.
fn parse_item<'t>(value: &'t str, lines: &mut std::str::Lines<'t>) -> Option<Item<'t>> {
    if value.starts_with('"') {
        return parse_string(value).map(Item::Text);
    }
    if value == "[" {
        let mut list = Vec::new();
        loop {
            match lines.next()? {
                "]" => return Some(Item::List(list)),
                line => list.push(parse_string(line.strip_prefix("    ")?.strip_suffix(',')?)?),
            }
        }
    }
    if let Some(list) = value.strip_prefix('[').and_then(|list| list.strip_suffix(']')) {
        let list =
            if list.is_empty() { Some(Vec::new()) } else { list.split(", ").map(parse_string).collect() };
        return list.map(Item::List);
    }
    let is_number = value.bytes().all(|byte| byte.is_ascii_digit()) && !value.starts_with('0');
    if is_number { value.parse().ok().map(Item::Number) } else { None }
}

/// Reads a string without escapes.
fn parse_string(quoted: &str) -> Option<&str> {
    let text = quoted.strip_prefix('"')?.strip_suffix('"')?;
    (is_plain(text) && !text.contains(['"', '\\'])).then_some(text)
}

fn is_plain(text: &str) -> bool {
    !text.bytes().any(|byte| byte.is_ascii_control())
}

/// Reads a key without quotes.
fn parse_key(key: &str) -> Option<&str> {
    let is_bare = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    (!key.is_empty() && key.bytes().all(is_bare)).then_some(key)
}

impl<'de> Deserializer<'de> for Item<'de> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self {
            Item::Number(number) => visitor.visit_u64(number),
            Item::Text(text) => visitor.visit_borrowed_str(text),
            Item::List(list) => visitor.visit_seq(SeqDeserializer::new(list.into_iter().map(Item::Text))),
            Item::Table(table) => visitor.visit_map(MapDeserializer::new(table.0.into_iter())),
            Item::Tables(list) => visitor.visit_seq(SeqDeserializer::new(list.into_iter().map(Item::Table))),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_some(self)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 u8 u16 u32 u64 f32 f64 char str string bytes byte_buf unit unit_struct newtype_struct seq tuple
        tuple_struct map struct enum identifier ignored_any
    }
}

impl<'de> IntoDeserializer<'de, Error> for Item<'de> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    /// A text that is read must be TOML, and mean the same.
    #[test]
    fn what_is_read_is_what_toml_says() {
        let lock = "# Written\n\nversion = 1\nblocks = [\n    \"a\",\n    \"b\",\n]\n\n[registry]\nclass = \"C\"\n\n[[sandbox]]\nname = \"ü # ]\"\nkeys = [\"name\", \"x\"]\nnone = []\n\n[sandbox.environments.e-1]\ncontainer = \"\"\n\n[sandbox.environments.e_2]\nkeys = []\n\n[[sandbox]]\nname = \"b\"\n\n[sandbox.environments.e-1]\nkeys = []\n";
        let toml = |text: &str| toml_edit::de::from_str::<Value>(text).ok();
        assert_eq!(read_lock::<Value>(lock).unwrap(), toml(lock).unwrap());
        assert!(read_lock::<Value>(&lock.replace('\n', "\r\n")).is_some());
        let bytes = [
            "\"", "\\", "\n", "\r", "[", "]", "=", "#", ",", " ", ".", "a", "1", "'", "\t", "\0", "\u{feff}",
        ];
        let places = (0..=lock.len()).filter(|place| lock.is_char_boundary(*place));
        for place in places {
            let (before, after) = lock.split_at(place);
            let rest = after.chars().next().map_or("", |first| &after[first.len_utf8()..]);
            let line = after.split_once('\n').map_or("", |(_, rest)| rest);
            let inserted = bytes.iter().map(|more| format!("{before}{more}{after}"));
            let removed = [rest, line].map(|after| format!("{before}{after}"));
            for text in inserted.chain(removed) {
                if let Some(value) = read_lock::<Value>(&text) {
                    assert_eq!(Some(value), toml(&text), "{text}");
                }
            }
        }
    }

    #[test]
    fn other_forms_are_left_to_toml() {
        for text in
            ["a = 'b'", "a = 01", "a = 1.5", "a.b = 1", "a = 1 # b", "a = 1\na = 1", "a = \"\\n\"", "a=1"]
        {
            assert!(read_lock::<Value>(text).is_none(), "{text}");
        }
    }
}
