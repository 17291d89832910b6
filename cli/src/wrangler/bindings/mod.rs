//! Reads the bindings of a Worker, of every kind and in every environment.
//!
//! Validating them is wrangler's job: entries without a name are skipped, and the rest is read.

pub mod kinds;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use koze_edit::{Path, Step};
use serde_json::Value;

use self::kinds::{Gives, KINDS, Kind, Names, OTHERS, UNKNOWN};

/// The bindings of a Worker.
#[derive(Debug)]
pub struct Bindings<'a> {
    /// The levels that have their own bindings: the top level, then the environments in their order.
    pub levels: Vec<Level<'a>>,
    /// The bindings by name, each with its uses in the order of the levels.
    pub list: BTreeMap<&'a str, Vec<Use<'a>>>,
}

/// A level that has its own bindings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Level<'a> {
    /// The environment; `None` is the top level.
    pub environment: Option<&'a str>,
    /// Whether this is the `previews` block of the level.
    pub previews: bool,
}

/// What a name is bound to at a level.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Use<'a> {
    /// The index of the level.
    pub level: usize,
    /// The kind.
    pub kind: &'static Kind,
    /// The key at the level, which identifies kinds that koze does not know.
    pub key: &'a str,
    /// The return type of an accessor for this use alone.
    pub gives: Gives,
}

/// Returns the bindings of all levels of a configuration.
pub fn all(root: &Value) -> Bindings<'_> {
    let mut bindings = Bindings { levels: Vec::new(), list: BTreeMap::new() };
    let environments = root.get("env").and_then(Value::as_object).into_iter().flatten();
    let named = environments.map(|(name, value)| (Some(name.as_str()), value));
    for (environment, value) in std::iter::once((None, root)).chain(named) {
        let above = [value, root];
        bindings.add_level(Level { environment, previews: false }, value, &above[1..]);
        if let Some(previews) = value.get("previews").filter(|previews| previews.is_object()) {
            bindings.add_level(Level { environment, previews: true }, previews, &above);
        }
    }
    bindings
}

impl<'a> Bindings<'a> {
    /// Adds a level; `above` holds the levels that it inherits from, the nearest first.
    fn add_level(&mut self, level: Level<'a>, value: &'a Value, above: &[&'a Value]) {
        let index = self.levels.len();
        self.levels.push(level);
        let mut add = |found: Found<'a>| {
            let Found { name, kind, key, gives, .. } = found;
            let uses = self.list.entry(name).or_default();
            let new = Use { level: index, kind, key, gives };
            if !uses.contains(&new) {
                uses.push(new);
            }
        };
        of_level(value, &mut add);
        for kind in KINDS.iter().filter(|kind| kind.inherited && own_entry(value, kind.keys[0]).is_none()) {
            if let Some((key, value)) = above.iter().find_map(|value| own_entry(value, kind.keys[0])) {
                of_kind(kind, key, value, &mut add);
            }
        }
    }
}

/// Returns the entry of a key. Null counts as absent.
fn own_entry<'a>(level: &'a Value, key: &str) -> Option<(&'a str, &'a Value)> {
    let (key, value) = level.as_object()?.get_key_value(key)?;
    (!value.is_null()).then_some((key.as_str(), value))
}

/// A binding name in the configuration.
#[derive(Debug)]
pub struct Found<'a> {
    /// The name.
    pub name: &'a str,
    /// The kind.
    pub kind: &'static Kind,
    /// The key at the level.
    pub key: &'a str,
    /// The return type of an accessor.
    pub gives: Gives,
    /// The place of the name, relative to the level.
    pub place: Place<'a>,
}

/// The place of a binding name. Its path is computed only if somebody asks for it, because few of many names need one.
#[derive(Debug)]
pub enum Place<'a> {
    /// In the entries of a kind.
    Entry(&'static Kind, Entry<'a>),
    /// Below an unknown key.
    Path(Path),
}

/// The place of a binding name in the entries of its kind.
#[derive(Debug, Clone, Copy)]
pub enum Entry<'a> {
    /// The entries as a whole.
    All,
    /// The key.
    Key(&'a str),
    /// The list element.
    Element(usize),
    /// The property of a list element.
    Property(usize, &'static str),
}

impl Place<'_> {
    /// Returns the path.
    pub fn path(self) -> Path {
        let (kind, entry) = match self {
            Place::Entry(kind, entry) => (kind, entry),
            Place::Path(path) => return path,
        };
        let mut path: Path = kind.keys.iter().map(|key| Step::from(*key)).collect();
        match entry {
            Entry::All => {}
            Entry::Key(key) => path.push(Step::from(key)),
            Entry::Element(index) => path.push(Step::from(index)),
            Entry::Property(index, property) => path.extend([Step::from(index), Step::from(property)]),
        }
        path
    }
}

/// Passes every name that a level itself defines to `each`.
pub fn of_level<'a>(level: &'a Value, each: &mut impl FnMut(Found<'a>)) {
    for (key, value) in level.as_object().into_iter().flatten() {
        let mut kinds = KINDS.iter().filter(|kind| kind.keys[0] == key).peekable();
        if kinds.peek().is_none() && !OTHERS.contains(&key.as_str()) {
            visit_unknown(key, value, &mut vec![Step::from(key.as_str())], each);
        }
        for kind in kinds {
            of_kind(kind, key, value, each);
        }
    }
}

/// Passes the names of a kind to `each`; `value` is the value of the kind's first key.
fn of_kind<'a>(kind: &'static Kind, key: &'a str, value: &'a Value, each: &mut impl FnMut(Found<'a>)) {
    let Some(entries) = kind.keys[1..].iter().try_fold(value, |value, key| value.get(key)) else { return };
    let mut found = |name: &'a str, gives: Gives, entry: Entry<'a>| {
        if !name.is_empty() {
            each(Found { name, kind, key, gives, place: Place::Entry(kind, entry) });
        }
    };
    match (&kind.names, entries) {
        (Names::Keys, Value::Object(entries)) => {
            for (name, value) in entries {
                let gives = if kind.keys == ["vars"] { variable_type(value) } else { kind.gives };
                found(name, gives, Entry::Key(name));
            }
        }
        (Names::Elements, Value::Array(names)) => {
            for (index, name) in names.iter().enumerate() {
                found(name.as_str().unwrap_or_default(), kind.gives, Entry::Element(index));
            }
        }
        (Names::Property(property), Value::Array(entries)) => {
            for (index, entry) in entries.iter().enumerate() {
                let name = entry.get(property).and_then(Value::as_str).unwrap_or_default();
                found(name, kind.gives_of(entry), Entry::Property(index, property));
            }
            // `wrangler types` lists it next to the bindings.
            if kind.keys[0] == "logfwdr" && !entries.is_empty() {
                found("LOGFWDR_SCHEMA", Gives::Raw, Entry::All);
            }
        }
        (Names::Property(property), Value::Object(entry)) => {
            let name = entry.get(*property).and_then(Value::as_str).unwrap_or_default();
            found(name, kind.gives_of(entries), Entry::Key(property));
        }
        _ => {}
    }
}

impl Kind {
    /// Returns the type of an accessor for an entry.
    fn gives_of(&self, entry: &Value) -> Gives {
        if self.keys[0] != "unsafe" {
            return self.gives;
        }
        // The types that `wrangler types` recognizes.
        match entry.get("type").and_then(Value::as_str) {
            Some("ratelimit") => Gives::Object("RateLimiter", "rate_limiter"),
            Some("service") => Gives::Object("Fetcher", "service"),
            _ => self.gives,
        }
    }
}

/// Returns the type of an accessor for a variable. wrangler uploads strings unchanged and other values as JSON, which
/// the Worker receives parsed.
fn variable_type(value: &Value) -> Gives {
    match value {
        Value::String(_) => Gives::Text,
        Value::Number(_) => Gives::Number,
        Value::Bool(_) => Gives::Boolean,
        Value::Null | Value::Array(_) | Value::Object(_) => Gives::Json,
    }
}

/// The maximum depth at which to look for names below an unknown key. All known kinds are less deep.
const DEPTH: usize = 4;

/// Passes every `binding` below an unknown key to `each`.
fn visit_unknown<'a>(key: &'a str, value: &'a Value, path: &mut Path, each: &mut impl FnMut(Found<'a>)) {
    if let Some(name) = value.get("binding").and_then(Value::as_str) {
        if !name.is_empty() {
            let path = [path.as_slice(), &[Step::from("binding")]].concat();
            each(Found { name, kind: &UNKNOWN, key, gives: Gives::Raw, place: Place::Path(path) });
        }
        return;
    }
    let inside: Vec<(Step, &Value)> = match value {
        _ if path.len() == DEPTH => Vec::new(),
        Value::Object(object) => {
            object.iter().map(|(key, value)| (Step::from(key.as_str()), value)).collect()
        }
        Value::Array(list) => {
            list.iter().enumerate().map(|(index, value)| (Step::from(index), value)).collect()
        }
        _ => Vec::new(),
    };
    for (step, value) in inside {
        path.push(step);
        visit_unknown(key, value, path, each);
        path.pop();
    }
}

/// Returns the type of an accessor that has to fit all these uses.
///
/// Strings, secrets and data can all be read as data; objects have nothing in common.
pub fn gives(uses: &[Use]) -> Gives {
    let is_text = |gives| matches!(gives, Gives::Text | Gives::Secret);
    let is_data = |gives| is_text(gives) || matches!(gives, Gives::Number | Gives::Boolean | Gives::Json);
    uses.iter()
        .map(|one| one.gives)
        .reduce(|all, one| match (all, one) {
            _ if all == one => all,
            // The same type, whichever method returns it.
            (Gives::Object(ty, _), Gives::Object(other, _)) if ty == other => all,
            _ if is_text(all) && is_text(one) => Gives::Secret,
            _ if is_data(all) && is_data(one) => Gives::Json,
            _ => Gives::Raw,
        })
        .unwrap_or(Gives::Raw)
}
