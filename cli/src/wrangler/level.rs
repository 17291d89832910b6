//! Indexes the blocks of one level, because a project may have a thousand sandboxes.

use std::collections::HashMap;

use koze_edit::Path;
use serde_json::Value;

use super::bindings;
use super::scope::Scope;

/// The blocks of one level.
pub struct Level<'a> {
    /// The level.
    pub scope: &'a Scope<'a>,
    /// `containers`.
    pub containers: Entries<'a>,
    /// `durable_objects.bindings`.
    pub bindings: Entries<'a>,
    /// The names of all other bindings and variables, and their paths.
    pub others: HashMap<&'a str, Path>,
}

/// A list of entries with a name and a class.
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
        bindings::of_level(scope.value, &mut |found| {
            if found.key != "durable_objects" {
                others.insert(found.name, scope.path(&found.place.path()));
            }
        });
        Level {
            scope,
            containers: Entries::new(scope.list(&["containers"]), |entry| scope.container_class(entry)),
            bindings: Entries::new(scope.list(&["durable_objects", "bindings"]), |entry| {
                entry.get("class_name").and_then(Value::as_str)
            }),
            others,
        }
    }
}

impl<'a> Entries<'a> {
    fn new(list: &'a [Value], class_of: impl Fn(&'a Value) -> Option<&'a str>) -> Self {
        let mut classes: HashMap<&'a str, Vec<usize>> = HashMap::new();
        let mut names: HashMap<&'a str, Vec<usize>> = HashMap::new();
        for (index, entry) in list.iter().enumerate() {
            if let Some(class) = class_of(entry) {
                classes.entry(class).or_default().push(index);
            }
            if let Some(name) = entry.get("name").and_then(Value::as_str) {
                names.entry(name).or_default().push(index);
            }
        }
        Entries { list, classes, names }
    }

    /// Returns the indices of the entries of any of these classes, ascending.
    pub fn of_classes<'c>(&self, classes: impl Iterator<Item = &'c str>) -> Vec<usize> {
        let mut indices: Vec<usize> =
            classes.filter_map(|class| self.classes.get(class)).flatten().copied().collect();
        indices.sort_unstable();
        indices
    }

    /// Returns the indices of the entries with a name.
    pub fn named(&self, name: &str) -> &[usize] {
        self.names.get(name).map_or(&[], Vec::as_slice)
    }
}
