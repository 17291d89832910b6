//! Removes the migrations or exports of classes that were never deployed.

use std::collections::{BTreeMap, BTreeSet};

use koze_edit::{Edit, Path, Step};
use serde_json::Value;

use super::migrations::strings;
use super::{Lifecycle, Notation, objects, text};
use crate::finding::Findings;
use crate::lock::{self, Lock};
use crate::rules::Rule;
use crate::wrangler::locate::Config;

/// The keys of a migration that list created or deleted classes.
const KEYS: [&str; 3] = ["new_classes", "new_sqlite_classes", "deleted_classes"];

/// The edits that remove classes from a list.
#[derive(Debug, Default)]
pub struct Unmade {
    /// The edits.
    pub edits: Vec<Edit>,
    /// The affected tags: the hash of what remains of each, or `None` if nothing remains.
    pub tags: BTreeMap<String, Option<String>>,
}

/// Returns the classes that a configuration deletes, at any level.
pub fn deleted(config: &Value) -> BTreeSet<String> {
    let environments = config.get("env").and_then(Value::as_object);
    let levels = std::iter::once(config).chain(environments.into_iter().flat_map(|all| all.values()));
    let mut classes = BTreeSet::new();
    for level in levels {
        let migrations =
            objects(level, "migrations").flat_map(|migration| strings(migration, "deleted_classes"));
        let exports = level.get("exports").and_then(Value::as_object).into_iter().flatten();
        let tombs = exports
            .filter(|(_, entry)| text(entry, "state") == Some("deleted"))
            .map(|(class, _)| class.as_str());
        classes.extend(migrations.chain(tombs).map(str::to_owned));
    }
    classes
}

impl Lifecycle<'_> {
    /// Removes classes. It is an error if a class has a history or koze did not create it, because it may have been
    /// deployed.
    pub fn unmake(&self, classes: &[&str], lock: &Lock, config: &Config, findings: &mut Findings) -> Unmade {
        let mut unmade = Unmade::default();
        for class in classes {
            if let Some((why, path)) = self.past(class, lock) {
                let remedy = "a deployed class has storage: use `--delete-storage` or `--keep-storage`; remove entries that koze did not write yourself";
                let rule = Rule::NotRemovable { name: (*class).to_owned(), why, remedy: remedy.to_owned() };
                findings.add(rule, Some(config.place(&path)));
            }
        }
        match &self.kind {
            Notation::Exports(exports) => {
                let there = classes.iter().filter(|class| exports.contains_key(**class));
                let remove = |class: &&str| Edit::Remove { path: self.at(&[Step::from(*class)]) };
                unmade.edits.extend(there.map(remove));
            }
            Notation::Migrations(list) => {
                for (index, migration) in list.iter().enumerate() {
                    self.unmake_in(index, migration, classes, &mut unmade);
                }
            }
        }
        unmade
    }

    fn unmake_in(&self, index: usize, migration: &Value, classes: &[&str], unmade: &mut Unmade) {
        let mut left = migration.clone();
        let mut edits = Vec::new();
        for key in KEYS {
            let all: Vec<&str> = strings(migration, key).collect();
            let going: Vec<usize> = (0..all.len()).filter(|at| classes.contains(&all[*at])).collect();
            let Some(entry) = left.as_object_mut().filter(|_| !going.is_empty()) else { continue };
            if going.len() == all.len() {
                entry.shift_remove(key);
                edits.push(Edit::Remove { path: self.at(&[Step::Index(index), Step::from(key)]) });
                continue;
            }
            entry.insert(
                key.to_owned(),
                all.iter().filter(|class| !classes.contains(class)).copied().collect(),
            );
            let steps = |at: &usize| [Step::Index(index), Step::from(key), Step::Index(*at)];
            edits.extend(going.iter().map(|at| Edit::Remove { path: self.at(&steps(at)) }));
        }
        if edits.is_empty() {
            return;
        }
        // Remove a migration that has become empty.
        let empty = left.as_object().is_some_and(|left| left.keys().all(|key| key == "tag"));
        if empty {
            edits = vec![Edit::Remove { path: self.at(&[Step::Index(index)]) }];
        }
        unmade.edits.extend(edits);
        if let Some(tag) = text(migration, "tag") {
            unmade.tags.insert(tag.to_owned(), (!empty).then(|| lock::hash(&left)));
        }
    }

    /// Returns evidence that a class may have been deployed, and its path.
    fn past(&self, class: &str, lock: &Lock) -> Option<(String, Path)> {
        let list = match &self.kind {
            Notation::Migrations(list) => list,
            Notation::Exports(exports) => {
                let renamed = |(_, entry): &(&String, &Value)| text(entry, "renamed_to") == Some(class);
                let state = text(exports.get(class)?, "state")
                    .filter(|state| !["created", "deleted"].contains(state));
                let moved = state.is_some() || exports.iter().any(|entry| renamed(&entry));
                let why = "it was renamed or transferred, so it was deployed";
                return moved.then(|| (why.to_owned(), self.at(&[Step::from(class)])));
            }
        };
        for (index, migration) in list.iter().enumerate() {
            let moved = |key: &str| {
                let named =
                    |entry: &Value| text(entry, "from") == Some(class) || text(entry, "to") == Some(class);
                objects(migration, key).any(named)
            };
            let path = || self.at(&[Step::Index(index)]);
            let tag = text(migration, "tag").unwrap_or_default();
            if moved("renamed_classes") || moved("transferred_classes") {
                let why = format!("`{tag}` renames or transfers it, so it was deployed");
                return Some((why, path()));
            }
            let names = KEYS.iter().any(|key| strings(migration, key).any(|named| named == class));
            let written = lock
                .migrations
                .iter()
                .any(|locked| locked.tag == tag && locked.environment == self.environment);
            if names && !written {
                return Some((format!("koze did not write the migration `{tag}`, which names it"), path()));
            }
        }
        None
    }

    fn at(&self, steps: &[Step]) -> Path {
        [self.path.as_slice(), steps].concat()
    }
}
