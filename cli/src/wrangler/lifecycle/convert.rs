//! Converts a list of migrations to a map of exports.

use koze_edit::{Edit, Path, Step};
use serde_json::{Map, Value, json};

use super::{Lifecycle, Notation, elements_at, exports, history, migrations, text_at};
use crate::wrangler::level::Level;
use crate::wrangler::scope::Scope;

/// The conversion of one level.
#[derive(Debug, Default)]
pub struct Conversion {
    /// The edits.
    pub edits: Vec<Edit>,
    /// How many classes exist.
    pub classes: usize,
    /// The tag of the last migration, if there are migrations before it.
    pub newest: Option<String>,
}

/// Why a level cannot be converted, and where.
#[derive(Debug)]
pub struct Obstacle {
    /// The reason.
    pub why: String,
    /// The place in the configuration.
    pub path: Path,
}

impl Lifecycle<'_> {
    /// Returns whether the classes are declared in `migrations`, and there are any.
    pub fn has_migrations(&self) -> bool {
        matches!(self.kind, Notation::Migrations([_, ..]))
    }

    /// Returns the edits that declare the classes of this list in the `exports` of a level:
    ///
    /// | the history of a class | its entry |
    /// |---|---|
    /// | it exists | its storage, from the list that created it |
    /// | the last migration renames or deletes it | a tombstone, because that migration may not be deployed |
    /// | an earlier migration renames or deletes it | none |
    pub fn to_exports(&self, scope: &Scope) -> Conversion {
        let Notation::Migrations(list) = self.kind else { return Conversion::default() };
        let mut entries = Map::new();
        if let Some(newest) = list.last() {
            self.add_tombstones(newest, &mut entries);
        }
        for (class, live) in &self.live {
            let storage = if live.sqlite { "sqlite" } else { "legacy-kv" };
            entries.insert(class.clone(), json!({ "type": "durable-object", "storage": storage }));
        }
        let path = |key: &str| scope.path(&[Step::from(key)]);
        let mut edits = Vec::new();
        if scope.value.get("migrations").is_some() {
            edits.push(Edit::Remove { path: path("migrations") });
        }
        if scope.get("exports").is_some() {
            edits.extend(entries.into_iter().map(|(class, value)| {
                let path = [path("exports"), vec![Step::from(class.as_str())]].concat();
                Edit::Set { path, value }
            }));
        } else {
            edits.push(Edit::Set { path: path("exports"), value: Value::Object(entries) });
        }
        let newest = list.last().filter(|_| list.len() > 1);
        let newest = newest.and_then(|migration| text_at(migration, "tag")).map(str::to_owned);
        Conversion { edits, classes: self.live.len(), newest }
    }

    /// Adds the classes that a migration renames or deletes, unless their name is in use again.
    fn add_tombstones(&self, migration: &Value, entries: &mut Map<String, Value>) {
        let is_free = |class: &&str| !self.lives(class);
        for class in migrations::strings(migration, "deleted_classes").filter(is_free) {
            entries.insert(class.to_owned(), json!({ "type": "durable-object", "state": "deleted" }));
        }
        for renamed in elements_at(migration, "renamed_classes") {
            let (Some(from), Some(to)) = (text_at(renamed, "from"), text_at(renamed, "to")) else { continue };
            if is_free(&from) && self.lives(to) {
                let entry = json!({ "type": "durable-object", "state": "renamed", "renamed_to": to });
                entries.insert(from.to_owned(), entry);
            }
        }
    }

    /// Returns what prevents the conversion of this list: the storage of some class is unknown.
    pub fn conversion_obstacles(&self) -> Vec<Obstacle> {
        let Notation::Migrations(list) = self.kind else { return Vec::new() };
        let mut obstacles = Vec::new();
        for (index, migration) in list.iter().enumerate() {
            if let Some(moved) = elements_at(migration, "transferred_classes").next() {
                let text = |value, key| text_at(value, key).unwrap_or_default();
                let tag = text(migration, "tag");
                let class = text(moved, "to");
                let worker = text(moved, "from_script");
                let why = format!(
                    "`{tag}` transfers the class `{class}` from the Worker `{worker}`, which alone records its storage"
                );
                let path =
                    [self.path.clone(), vec![Step::Index(index), Step::from("transferred_classes")]].concat();
                obstacles.push(Obstacle { why, path });
            }
        }
        for refused in history::refused(&list.iter().collect::<Vec<_>>()) {
            let (why, steps) = refused.into_reason();
            obstacles.push(Obstacle { why, path: [self.path.clone(), steps].concat() });
        }
        obstacles
    }

    /// Returns what prevents the conversion at a level to which this list applies: entries whose class this list does not
    /// create, or whose name `exports` already has.
    pub fn level_obstacles(&self, level: &Level) -> Vec<Obstacle> {
        let scope = level.scope;
        let mut obstacles = Vec::new();
        let blocks = [
            (vec![Step::from("containers")], "container", &level.containers),
            (vec![Step::from("durable_objects"), Step::from("bindings")], "binding", &level.bindings),
        ];
        for (keys, noun, entries) in &blocks {
            for (index, entry) in entries.list.iter().enumerate() {
                let Some(class) = text_at(entry, "class_name").filter(|class| !self.lives(class)) else {
                    continue;
                };
                let path = [scope.path(keys), vec![Step::Index(index)]].concat();
                let bound = level.bindings.of_classes(std::iter::once(class));
                let script =
                    bound.iter().find_map(|index| text_at(&level.bindings.list[*index], "script_name"));
                let why = match script {
                    // Such a binding needs no entry in `exports`.
                    Some(_) if *noun == "binding" && text_at(entry, "script_name").is_some() => continue,
                    Some(script) => {
                        format!("the class `{class}` of this {noun} belongs to the Worker `{script}`")
                    }
                    None => format!("no migration creates the class `{class}` of this {noun}"),
                };
                obstacles.push(Obstacle { why, path });
            }
        }
        let other = scope.get("exports").and_then(Value::as_object).into_iter().flatten();
        for (class, _) in other.filter(|(class, entry)| self.lives(class) && !exports::is_object(entry)) {
            let why = format!("`exports` has an entry of another type with the name `{class}`");
            let path = scope.path(&[Step::from("exports"), Step::from(class.as_str())]);
            obstacles.push(Obstacle { why, path });
        }
        obstacles
    }
}
