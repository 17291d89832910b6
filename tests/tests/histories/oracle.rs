//! A model of Cloudflare's deployments: an account without a network.
//!
//! It implements only the documentation. The sources of its rules:
//!
//! - *migrations*: developers.cloudflare.com, “Durable Object class migrations (legacy)”: tags are unique names that
//!   say which migrations have been applied; each is applied once per environment, in the order of the list; an
//!   environment's list replaces the top level's; a Worker with a tag must always be deployed with one; the target of a
//!   rename must not exist and must be exported; a delete removes all data, after binding and class were removed;
//!   `SQLite` cannot be enabled on an existing class.
//! - *which migrations are pending*: wrangler's `getMigrationsToUpload`: those after the deployed tag; if the deployed
//!   tag is not in the list, wrangler sends the whole list again, which counts as a fault here.
//! - *exports*: developers.cloudflare.com, “Durable Object class exports” with its error reference, whose scenarios the
//!   refusals below name; a deployment is applied completely or not at all.
//! - *shape*: wrangler's validator: unique container names, one container per class, unique binding names; `exports`
//!   and `migrations` exclude each other.
//! - *an existing class must be exported by the code* in either mode: the reference of `exports`
//!   (`config_export_not_in_code`), and error 10064 of the Workers API.
//!
//! The documentation does not specify the order within one migration. A migration that depends on it is refused.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::config::{Level, text};

/// The storage of a class.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Storage {
    /// The identity of the storage, whatever its class is called now.
    pub(crate) born: String,
    pub(crate) sqlite: bool,
}

/// A deployed Worker: one for the top level and one for each environment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Worker {
    /// The tag of the last deployment.
    tag: Option<String>,
    /// The migrations that were applied, in their form at that time.
    applied: Vec<Value>,
    /// The existing classes.
    pub(crate) classes: BTreeMap<String, Storage>,
}

type Refusal = Result<(), String>;

fn refuse(condition: bool, why: impl FnOnce() -> String) -> Refusal {
    if condition { Err(why()) } else { Ok(()) }
}

impl Worker {
    /// Returns the Worker after a deployment, or why Cloudflare or wrangler rejects it. `code` holds the classes that
    /// the Worker's entry point exports; `born` identifies the storage of a class that `exports` creates.
    pub(crate) fn deployed(
        &self,
        level: &Level,
        code: &BTreeSet<String>,
        born: &dyn Fn(&str) -> String,
    ) -> Result<Worker, String> {
        shape(level)?;
        let mut after = self.clone();
        if level.exports.is_empty() {
            after.migrate(&level.migrations)?;
        } else {
            after.reconcile(level, code, born)?;
        }
        for class in after.classes.keys() {
            refuse(!code.contains(class), || {
                format!("the class `{class}` lives, and the code does not export it")
            })?;
        }
        for binding in &level.bindings {
            let class = text(binding, "class_name");
            let dead = binding.get("script_name").is_none() && !after.classes.contains_key(class);
            refuse(dead, || format!("the binding {binding} is to a class that does not live"))?;
        }
        for container in &level.containers {
            let class = text(container, "class_name");
            let sqlite = after.classes.get(class).is_some_and(|storage| storage.sqlite);
            refuse(!sqlite, || format!("the container {container} has no living class with SQLite"))?;
            let bound = level.bindings.iter().any(|binding| text(binding, "class_name") == class);
            refuse(!bound, || format!("the container {container} has no binding"))?;
        }
        Ok(after)
    }

    fn migrate(&mut self, list: &[Value]) -> Refusal {
        let tags: Vec<&str> = list.iter().map(|migration| text(migration, "tag")).collect();
        let unique: BTreeSet<&str> = tags.iter().copied().collect();
        refuse(unique.len() != tags.len() || unique.contains(""), || {
            format!("tags twice or empty: {tags:?}")
        })?;
        let pending = match &self.tag {
            None => list,
            Some(tag) => {
                let deployed = tags.iter().position(|found| found == tag);
                let deployed =
                    deployed.ok_or_else(|| format!("the deployed tag `{tag}` is gone from {tags:?}"))?;
                refuse(list[..=deployed] != self.applied, || {
                    format!("applied migrations were edited: {:?} are {:?}", self.applied, &list[..=deployed])
                })?;
                &list[deployed + 1..]
            }
        };
        for migration in pending {
            self.apply(migration).map_err(|why| format!("{why}, in {migration}"))?;
        }
        self.tag = tags.last().map(|tag| (*tag).to_owned());
        self.applied = list.to_vec();
        Ok(())
    }

    fn apply(&mut self, migration: &Value) -> Refusal {
        let mut touched: BTreeSet<String> = BTreeSet::new();
        let mut touch =
            |class: &str| refuse(!touched.insert(class.to_owned()), || format!("`{class}` is named twice"));
        let names = |key: &str| {
            let list = migration[key].as_array().cloned().unwrap_or_default();
            list.iter().map(|class| class.as_str().unwrap_or_default().to_owned()).collect::<Vec<_>>()
        };
        let tag = text(migration, "tag");
        for (key, sqlite) in [("new_classes", false), ("new_sqlite_classes", true)] {
            for class in names(key) {
                touch(&class)?;
                let storage = Storage { born: format!("{class} of {tag}"), sqlite };
                let before = self.classes.insert(class.clone(), storage);
                refuse(before.is_some(), || format!("`{class}` exists"))?;
            }
        }
        for rename in migration["renamed_classes"].as_array().into_iter().flatten() {
            let (from, to) = (text(rename, "from"), text(rename, "to"));
            touch(from)?;
            touch(to)?;
            let storage = self.classes.remove(from).ok_or_else(|| format!("`{from}` does not exist"))?;
            refuse(self.classes.insert(to.to_owned(), storage).is_some(), || format!("`{to}` exists"))?;
        }
        for class in names("deleted_classes") {
            touch(&class)?;
            refuse(self.classes.remove(&class).is_none(), || format!("`{class}` does not exist"))?;
        }
        Ok(())
    }

    fn reconcile(
        &mut self,
        level: &Level,
        code: &BTreeSet<String>,
        born: &dyn Fn(&str) -> String,
    ) -> Refusal {
        let live = |class: &str| {
            level.exports.get(class).is_some_and(|entry| matches!(text(entry, "state"), "" | "created"))
        };
        let before = self.classes.clone();
        for class in before.keys() {
            refuse(!level.exports.contains_key(class), || {
                format!("orphaned_provisioned_namespace: `{class}`")
            })?;
        }
        for (class, entry) in &level.exports {
            match text(entry, "state") {
                "deleted" => {
                    refuse(code.contains(class), || {
                        format!("tombstone_delete_class_still_in_code: `{class}`")
                    })?;
                    self.classes.remove(class);
                }
                "renamed" => {
                    let to = text(entry, "renamed_to");
                    refuse(!live(to), || format!("`{class}` is renamed to `{to}`, which is no live entry"))?;
                    if let Some(storage) = before.get(class) {
                        self.classes.remove(class);
                        let taken = self.classes.insert(to.to_owned(), storage.clone());
                        refuse(before.contains_key(to) || taken.is_some(), || {
                            format!("tombstone_renamed_to_occupied: `{class}` to `{to}`")
                        })?;
                    }
                }
                "" | "created" => {
                    refuse(!code.contains(class), || format!("config_export_not_in_code: `{class}`"))?;
                }
                state => return Err(format!("`{class}` has the state `{state}`")),
            }
        }
        for (class, entry) in level.exports.iter().filter(|(class, _)| live(class)) {
            let sqlite = text(entry, "storage") == "sqlite";
            if let Some(storage) = self.classes.get(class) {
                refuse(storage.sqlite != sqlite, || format!("storage_type_mismatch: `{class}`"))?;
            } else {
                refuse(!sqlite, || format!("invalid_export: `{class}` is new and not SQLite"))?;
                self.classes.insert(class.clone(), Storage { born: born(class), sqlite });
            }
        }
        Ok(())
    }
}

/// Checks what wrangler's validator rejects.
fn shape(level: &Level) -> Refusal {
    refuse(!level.exports.is_empty() && !level.migrations.is_empty(), || "both lists".to_owned())?;
    let all = [("name", &level.containers), ("class_name", &level.containers), ("name", &level.bindings)];
    for (key, list) in all {
        let mut seen = BTreeSet::new();
        for entry in list {
            let value = text(entry, key);
            refuse(value.is_empty() || !seen.insert(value), || {
                format!("two entries with the {key} `{value}`: {list:?}")
            })?;
        }
    }
    for (class, entry) in &level.exports {
        refuse(text(entry, "type") != "durable-object", || format!("the export `{class}` has no type"))?;
        refuse(text(entry, "renamed_to") == class, || format!("`{class}` is renamed to itself"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn level(migrations: Value) -> Level {
        Level { migrations: serde_json::from_value(migrations).expect("a list"), ..Level::default() }
    }

    fn exports(exports: Value) -> Level {
        Level { exports: serde_json::from_value(exports).expect("a map"), ..Level::default() }
    }

    fn deploy(worker: &Worker, level: &Level, code: &[&str]) -> Result<Worker, String> {
        let code = code.iter().map(|class| (*class).to_owned()).collect();
        worker.deployed(level, &code, &|class| format!("{class} of the map"))
    }

    fn born(worker: &Worker, class: &str) -> String {
        worker.classes[class].born.clone()
    }

    #[test]
    fn only_migrations_after_the_deployed_tag_are_applied() {
        let (v1, v2) = (
            json!({ "tag": "v1", "new_sqlite_classes": ["A"] }),
            json!({ "tag": "v2", "renamed_classes": [{ "from": "A", "to": "B" }] }),
        );
        let first = deploy(&Worker::default(), &level(json!([v1])), &["A"]).expect("deployed");
        let second = deploy(&first, &level(json!([v1, v2])), &["B"]).expect("deployed");
        assert_eq!(born(&second, "B"), "A of v1");
        assert_eq!(deploy(&second, &level(json!([v1, v2])), &["B"]), Ok(second));
    }

    #[test]
    fn invalid_deployments_are_refused() {
        let v1 = json!({ "tag": "v1", "new_sqlite_classes": ["A", "B"] });
        let first = deploy(&Worker::default(), &level(json!([v1])), &["A", "B"]).expect("deployed");
        let refused = |list: Value, why: &str| {
            let refusal = deploy(&first, &level(list), &["A", "B"]).expect_err("refused");
            assert!(refusal.contains(why), "{refusal}");
        };
        refused(json!([v1, { "tag": "v2", "new_sqlite_classes": ["A"] }]), "`A` exists");
        refused(json!([v1, { "tag": "v2", "renamed_classes": [{ "from": "A", "to": "B" }] }]), "`B` exists");
        refused(json!([v1, { "tag": "v2", "deleted_classes": ["C"] }]), "`C` does not exist");
        refused(json!([v1, { "tag": "v1", "deleted_classes": ["A"] }]), "tags twice");
        refused(json!([{ "tag": "v1", "new_sqlite_classes": ["A"] }]), "edited");
        refused(json!([{ "tag": "v0", "new_sqlite_classes": ["A"] }]), "is gone");
        refused(json!([]), "is gone");
        refused(json!([v1, { "tag": "v2", "deleted_classes": ["A"], "new_classes": ["A"] }]), "exists");
        let refusal = deploy(&first, &level(json!([v1])), &["A"]).expect_err("refused");
        assert!(refusal.contains("`B` lives"), "{refusal}");
    }

    #[test]
    fn exports_are_reconciled() {
        let live = json!({ "type": "durable-object", "storage": "sqlite" });
        let to = |class: &str| json!({ "type": "durable-object", "state": "renamed", "renamed_to": class });
        let gone = json!({ "type": "durable-object", "state": "deleted" });
        let first = deploy(&Worker::default(), &exports(json!({ "A": live })), &["A"]).expect("deployed");
        let second = deploy(&first, &exports(json!({ "A": to("B"), "B": live })), &["B"]).expect("deployed");
        assert_eq!(born(&second, "B"), "A of the map");
        assert_eq!(deploy(&second, &exports(json!({ "A": to("B"), "B": live })), &["B"]), Ok(second.clone()));
        let third = deploy(&second, &exports(json!({ "B": gone, "C": live })), &["C"]).expect("deployed");
        assert_eq!(third.classes.keys().collect::<Vec<_>>(), ["C"]);
        let refused = |map: Value, code: &[&str], why: &str| {
            let refusal = deploy(&second, &exports(map), code).expect_err("refused");
            assert!(refusal.contains(why), "{refusal}");
        };
        refused(json!({ "C": live }), &["C"], "orphaned_provisioned_namespace: `B`");
        refused(json!({ "B": gone }), &["B"], "tombstone_delete_class_still_in_code");
        refused(json!({ "B": live }), &[], "config_export_not_in_code");
        refused(json!({ "B": to("C"), "C": gone }), &[], "no live entry");
        let both = deploy(&second, &exports(json!({ "B": live, "C": live })), &["B", "C"]).expect("deployed");
        let refusal =
            deploy(&both, &exports(json!({ "B": to("C"), "C": live })), &["C"]).expect_err("refused");
        assert!(refusal.contains("tombstone_renamed_to_occupied"), "{refusal}");
    }
}
