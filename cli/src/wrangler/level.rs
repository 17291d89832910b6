//! The blocks of one level, indexed: a project may have a thousand sandboxes.

use std::collections::HashMap;

use serde_json::Value;

use super::document::{Path, Step};
use super::scope::Scope;

/// The blocks of one level.
pub struct Level<'a> {
    /// Which level.
    pub scope: &'a Scope<'a>,
    /// `containers`.
    pub containers: Entries<'a>,
    /// `durable_objects.bindings`.
    pub bindings: Entries<'a>,
    /// The names of all other bindings and variables, and where they stand.
    pub others: HashMap<&'a str, Path>,
}

/// A list of entries with `name` and `class_name`.
pub struct Entries<'a> {
    /// The entries.
    pub list: &'a [Value],
    classes: HashMap<&'a str, Vec<usize>>,
    names: HashMap<&'a str, Vec<usize>>,
}

impl<'a> Level<'a> {
    /// Indexes a level.
    pub fn new(scope: &'a Scope<'a>) -> Self {
        let mut others = HashMap::new();
        for (key, value) in scope.value.as_object().into_iter().flatten() {
            if !matches!(key.as_str(), "env" | "containers" | "durable_objects" | "migrations" | "exports") {
                names(value, key == "vars", &mut scope.path(&[Step::from(key.as_str())]), &mut others);
            }
        }
        Level {
            scope,
            containers: Entries::new(scope.list(&["containers"])),
            bindings: Entries::new(scope.list(&["durable_objects", "bindings"])),
            others,
        }
    }
}

/// Collects names: keys of `vars`, and `binding` wherever it stands, as in `kv_namespaces[0].binding`.
fn names<'a>(value: &'a Value, vars: bool, path: &mut Path, found: &mut HashMap<&'a str, Path>) {
    match value {
        Value::Object(object) => {
            for (key, value) in object {
                path.push(Step::from(key.as_str()));
                match value.as_str() {
                    _ if vars => drop(found.insert(key, path.clone())),
                    Some(name) if key == "binding" => drop(found.insert(name, path.clone())),
                    _ => names(value, false, path, found),
                }
                path.pop();
            }
        }
        Value::Array(list) => {
            for (index, value) in list.iter().enumerate() {
                path.push(Step::from(index));
                names(value, false, path, found);
                path.pop();
            }
        }
        _ => {}
    }
}

impl<'a> Entries<'a> {
    fn new(list: &'a [Value]) -> Self {
        let index = |key: &str| {
            let mut map: HashMap<&'a str, Vec<usize>> = HashMap::new();
            for (index, entry) in list.iter().enumerate() {
                if let Some(text) = entry.get(key).and_then(Value::as_str) {
                    map.entry(text).or_default().push(index);
                }
            }
            map
        };
        Entries { list, classes: index("class_name"), names: index("name") }
    }

    /// The indices of the entries of any of these classes, ascending.
    pub fn of_classes<'c>(&self, classes: impl Iterator<Item = &'c str>) -> Vec<usize> {
        let mut indices: Vec<usize> =
            classes.filter_map(|class| self.classes.get(class)).flatten().copied().collect();
        indices.sort_unstable();
        indices
    }

    /// The indices of the entries of a name.
    pub fn named(&self, name: &str) -> &[usize] {
        self.names.get(name).map_or(&[], Vec::as_slice)
    }
}
