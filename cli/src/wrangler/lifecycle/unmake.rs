//! Removes the migrations or exports of classes that were never deployed.

use std::collections::{BTreeMap, BTreeSet};

use koze_edit::{Edit, Path, Step};
use serde_json::Value;

use super::migrations::strings;
use super::{Lifecycle, Notation, elements_at, exports, previous_names, text_at};
use crate::finding::Findings;
use crate::lock::{self, Lock};
use crate::rules::Rule;
use crate::wrangler::locate::Config;

/// The keys of a migration that list created or deleted classes.
const KEYS: [&str; 3] = ["new_classes", "new_sqlite_classes", "deleted_classes"];

/// The key of a migration that lists renamed classes.
const RENAMED: &str = "renamed_classes";

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
            elements_at(level, "migrations").flat_map(|migration| strings(migration, "deleted_classes"));
        let exports = level.get("exports").and_then(Value::as_object).into_iter().flatten();
        let tombs = exports
            .filter(|(_, entry)| text_at(entry, "state") == Some("deleted"))
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
            if let Some((why, path)) = self.deployment_evidence(class, lock) {
                let remedy = "a deployed class has storage: use `--delete-storage` or `--keep-storage`; remove entries that koze did not write yourself";
                let rule = Rule::NotRemovable { name: (*class).to_owned(), why, remedy: remedy.to_owned() };
                findings.add(rule, Some(config.place(&path)));
            }
        }
        match &self.kind {
            Notation::Exports(exports) => {
                let renames = exports::find_renames(exports);
                let names: BTreeSet<&str> = classes
                    .iter()
                    .flat_map(|class| std::iter::once(*class).chain(previous_names(class, &renames)))
                    .collect();
                let there = names.iter().filter(|class| exports.contains_key(**class));
                let remove = |class: &&str| Edit::Remove { path: self.path_at(&[Step::from(*class)]) };
                unmade.edits.extend(there.map(remove));
            }
            Notation::Migrations(list) => {
                let names: BTreeSet<&str> = classes
                    .iter()
                    .flat_map(|class| std::iter::once(*class).chain(former_names(list, class)))
                    .collect();
                for (index, migration) in list.iter().enumerate() {
                    self.unmake_in(index, migration, &names, &mut unmade);
                }
            }
        }
        unmade
    }

    /// Removes the names of the classes from one migration.
    fn unmake_in(&self, index: usize, migration: &Value, names: &BTreeSet<&str>, unmade: &mut Unmade) {
        let mut left = migration.clone();
        let mut edits = Vec::new();
        let is_gone = |entry: &Value| {
            let class = entry.as_str().or_else(|| text_at(entry, "to"));
            class.is_some_and(|class| names.contains(class))
        };
        for key in KEYS.into_iter().chain([RENAMED]) {
            let all: Vec<&Value> = elements_at(migration, key).collect();
            let going: Vec<usize> = (0..all.len()).filter(|at| is_gone(all[*at])).collect();
            let Some(entry) = left.as_object_mut().filter(|_| !going.is_empty()) else { continue };
            if going.len() == all.len() {
                entry.shift_remove(key);
                edits.push(Edit::Remove { path: self.path_at(&[Step::Index(index), Step::from(key)]) });
                continue;
            }
            entry.insert(key.to_owned(), all.into_iter().filter(|entry| !is_gone(entry)).cloned().collect());
            let steps = |at: &usize| [Step::Index(index), Step::from(key), Step::Index(*at)];
            edits.extend(going.iter().map(|at| Edit::Remove { path: self.path_at(&steps(at)) }));
        }
        if edits.is_empty() {
            return;
        }
        // Remove a migration that has become empty.
        let empty = left.as_object().is_some_and(|left| left.keys().all(|key| key == "tag"));
        if empty {
            edits = vec![Edit::Remove { path: self.path_at(&[Step::Index(index)]) }];
        }
        unmade.edits.extend(edits);
        if let Some(tag) = text_at(migration, "tag") {
            unmade.tags.insert(tag.to_owned(), (!empty).then(|| lock::hash(&left)));
        }
    }

    /// Returns evidence that a class may have been deployed, and its path.
    fn deployment_evidence(&self, class: &str, lock: &Lock) -> Option<(String, Path)> {
        let list = match &self.kind {
            Notation::Migrations(list) => list,
            // A rename is no evidence: koze writes its tombstone whether the class was deployed or not, and Cloudflare
            // rejects a deployment whose `exports` lack a class that it has.
            Notation::Exports(exports) => {
                let state = text_at(exports.get(class)?, "state")
                    .filter(|state| !["created", "deleted"].contains(state));
                let why = "it was renamed or transferred, so it was deployed";
                return state.map(|_| (why.to_owned(), self.path_at(&[Step::from(class)])));
            }
        };
        let formers = former_names(list, class);
        for (index, migration) in list.iter().enumerate() {
            let is_name = |name: &str| name == class || formers.contains(&name);
            let moves = |key: &str| {
                let names_it =
                    |entry: &Value| ["from", "to"].iter().any(|end| text_at(entry, end).is_some_and(is_name));
                elements_at(migration, key).any(names_it)
            };
            let tag = text_at(migration, "tag").unwrap_or_default();
            let is_listed = KEYS.iter().any(|key| strings(migration, key).any(is_name));
            let written = lock
                .migrations
                .iter()
                .any(|locked| locked.tag == tag && locked.environment == self.environment);
            let again = formers.iter().find(|former| is_used_again(list, former));
            let why = if moves("transferred_classes") {
                format!("`{tag}` transfers it, so it was deployed")
            } else if (is_listed || moves(RENAMED)) && !written {
                format!("koze did not write the migration `{tag}`, which names it")
            } else if let Some(former) = again.filter(|_| moves(RENAMED)) {
                format!("`{tag}` renames it, and its former name `{former}` is used again")
            } else {
                continue;
            };
            return Some((why, self.path_at(&[Step::Index(index)])));
        }
        None
    }

    fn path_at(&self, steps: &[Step]) -> Path {
        [self.path.as_slice(), steps].concat()
    }
}

/// Returns the former names of a class, according to the renames of a list.
fn former_names<'v>(list: &'v [Value], class: &str) -> Vec<&'v str> {
    let mut names: Vec<&str> = Vec::new();
    for renamed in list.iter().rev().flat_map(|migration| elements_at(migration, RENAMED)) {
        let is_known = |to: &str| to == class || names.contains(&to);
        if let (Some(from), true) = (text_at(renamed, "from"), text_at(renamed, "to").is_some_and(is_known)) {
            names.push(from);
        }
    }
    names
}

/// Returns whether more than one class of a list had a name.
fn is_used_again(list: &[Value], name: &str) -> bool {
    let is_given = |migration: &&Value| {
        let created = ["new_classes", "new_sqlite_classes"].into_iter();
        created.flat_map(|key| strings(migration, key)).any(|class| class == name)
            || elements_at(migration, RENAMED).any(|entry| text_at(entry, "to") == Some(name))
    };
    list.iter().filter(is_given).count() > 1
}
