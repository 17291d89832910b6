//! What the entries of a sandbox must be, and the edits that make them so.
//!
//! koze changes what it owns, adopts a hand-written entry that fits, and stops at one that contradicts.

use std::collections::BTreeSet;
use std::path::{Path as FilePath, PathBuf};

use koze_model::attrs::Rollout;
use koze_model::image::{self, ImageSource};
use koze_model::{Rule, Sandbox};
use serde_json::{Map, Value, json};

use super::document::{Edit, Path, Step};
use super::level::Level;
use super::locate::Config;
use super::scope::{Scope, dotted};
use crate::finding::{Finding, Findings, Place};
use crate::images::Resolved;
use crate::lock::{Entry, Locked};
use crate::paths;

/// A sandbox with all that its entries need.
pub struct Wanted<'a> {
    /// The sandbox.
    pub sandbox: &'a Sandbox,
    /// Its image.
    pub image: &'a Resolved,
    /// The directory of its source file.
    pub source_dir: PathBuf,
    /// What the lock says of its class, under its present or former name.
    pub locked: Option<&'a Locked>,
    /// The former name of the class, where it was renamed.
    pub old: Option<&'a str>,
    /// A place in the source file.
    pub place: Place,
}

/// What came of one sandbox at one level.
#[derive(Default)]
pub struct Outcome {
    /// The edits.
    pub edits: Vec<Edit>,
    /// What koze owns from now on.
    pub entry: Option<Entry>,
    /// What was taken over, in words.
    pub adopted: Vec<String>,
    /// The image of the entry, where it is the user's.
    pub kept_image: Option<String>,
}

impl Wanted<'_> {
    /// The container entry, in the order of its keys.
    fn container(&self, scope: &Scope, config_dir: &FilePath) -> Map<String, Value> {
        let attributes = &self.sandbox.attributes;
        let mut entry = Map::new();
        let mut set = |key: &str, value: Value| entry.insert(key.to_owned(), value);
        set("name", json!(self.name(scope)));
        set("class_name", json!(self.sandbox.class.value));
        set("image", json!(self.image.image));
        if let Some(path) = &attributes.image_build_context {
            set("image_build_context", json!(paths::dotted(&self.source_dir.join(&path.value), config_dir)));
        }
        if let Some(vars) = &attributes.image_vars {
            set("image_vars", vars.value.iter().map(|(name, value)| (name.clone(), json!(value))).collect());
        }
        set("instance_type", self.instance_type());
        if let Some(max) = &attributes.max_instances {
            set("max_instances", json!(max.value));
        }
        if let Some(constraints) = &attributes.constraints {
            let mut value = json!({});
            if !constraints.value.regions.is_empty() {
                value["regions"] = json!(constraints.value.regions);
            }
            if let Some(jurisdiction) = &constraints.value.jurisdiction {
                value["jurisdiction"] = json!(jurisdiction);
            }
            set("constraints", value);
        }
        match attributes.rollout_step_percentage.as_ref().map(|rollout| &rollout.value) {
            Some(Rollout::Every(step)) => drop(set("rollout_step_percentage", json!(step))),
            Some(Rollout::Steps(steps)) => drop(set("rollout_step_percentage", json!(steps))),
            None => {}
        }
        if let Some(seconds) = &attributes.rollout_active_grace_period {
            set("rollout_active_grace_period", json!(seconds.value));
        }
        if let Some(observability) = &attributes.observability {
            let mut value = json!({});
            if let Some(enabled) = observability.value.enabled {
                value["enabled"] = json!(enabled);
            }
            if let Some(enabled) = observability.value.logs_enabled {
                value["logs"] = json!({ "enabled": enabled });
            }
            set("observability", value);
        }
        entry
    }

    fn instance_type(&self) -> Value {
        let attributes = &self.sandbox.attributes;
        if let Some(instance) = &attributes.instance {
            let mut value = json!({});
            if let Some(vcpu) = instance.value.vcpu {
                value["vcpu"] = number(vcpu);
            }
            if let Some(memory) = instance.value.memory_mib {
                value["memory_mib"] = json!(memory);
            }
            if let Some(disk) = instance.value.disk_mb {
                value["disk_mb"] = json!(disk);
            }
            return value;
        }
        json!(attributes.instance_type.as_ref().map_or("lite", |kind| &kind.value))
    }

    /// The application's name: as the attribute says; else as it is locked, for wrangler finds an application by its
    /// name; else as it follows from the file.
    fn name(&self, scope: &Scope) -> String {
        let locked = self.locked.and_then(|locked| locked.entry(scope.environment.as_deref()));
        match (&self.sandbox.attributes.name, locked) {
            (None, Some(locked)) if !locked.container.is_empty() => locked.container,
            _ => self.fresh_name(scope),
        }
    }

    /// Whether the attribute itself, not a default, decides a key.
    fn declares(&self, key: &str) -> bool {
        let attributes = &self.sandbox.attributes;
        match key {
            "image" => matches!(self.image.source, ImageSource::Attribute | ImageSource::SiblingDockerfile),
            "instance_type" => attributes.instance.is_some() || attributes.instance_type.is_some(),
            "name" => attributes.name.is_some(),
            _ => true,
        }
    }

    /// The name a new entry gets; empty in the lock means that the entry has none.
    fn fresh_name(&self, scope: &Scope) -> String {
        scope.container(self.sandbox.container())
    }

    /// The class under its present and its former name.
    pub fn classes(&self) -> impl Iterator<Item = &str> {
        std::iter::once(self.sandbox.class.value.as_str()).chain(self.old)
    }

    /// Brings the container entry of one level about.
    pub fn reconcile_container(&self, level: &Level, config: &Config, findings: &mut Findings) -> Outcome {
        let scope = level.scope;
        let wanted = self.container(scope, config.dir());
        let at = |index: usize| scope.path(&[Step::from("containers"), Step::from(index)]);
        let mut outcome = Outcome::default();

        let own = level.containers.of_classes(self.classes());
        if let [_, second, ..] = own.as_slice() {
            let message = format!("two containers have the class `{}`", self.sandbox.class.value);
            let remedy = "a class has one container: take one of them out";
            self.contradict(message, remedy, &at(*second), config, findings);
            return outcome;
        }
        let name = |entry: &Map<String, Value>| entry["name"].as_str().unwrap_or_default().to_owned();
        let Some(index) = own.first().copied() else {
            let path = scope.path(&[Step::from("containers")]);
            let keys = wanted.keys().cloned().collect();
            outcome.entry = Some(Entry { container: name(&wanted), keys });
            outcome.edits.push(Edit::Push { path, value: Value::Object(wanted) });
            return outcome;
        };

        let entry = &level.containers.list[index];
        let locked = self.locked.and_then(|locked| locked.entry(scope.environment.as_deref()));
        let owned: BTreeSet<String> = locked.iter().flat_map(|locked| locked.keys.iter().cloned()).collect();
        let mut keys = Vec::new();
        for (key, value) in &wanted {
            let path = [at(index), vec![Step::from(key.as_str())]].concat();
            let present = entry.get(key);
            let ours = match present {
                _ if owned.contains(key) => true,
                // A nameless entry lives under the name wrangler makes for it; with another, a second application would
                // be made, which only the attribute can want.
                None => key != "name" || self.declares("name"),
                // The locked name of a file that has moved is the user's where it was the user's.
                Some(present) if key == "name" && !self.declares("name") => {
                    *present == json!(self.fresh_name(scope))
                }
                Some(present) if present == value => true,
                Some(present) => match self.adopt(key, present) {
                    Adoption::Keep => false,
                    Adoption::Replace => true,
                    Adoption::Contradiction => {
                        self.contradict_key(key, present, value, &path, config, findings);
                        continue;
                    }
                },
            };
            if !ours {
                if key == "image" {
                    outcome.kept_image = present.and_then(Value::as_str).map(str::to_owned);
                }
                continue;
            }
            keys.push(key.clone());
            if present != Some(value) {
                outcome.edits.push(Edit::Set { path, value: value.clone() });
            }
        }
        for key in owned.iter().filter(|key| !wanted.contains_key(*key) && entry.get(*key).is_some()) {
            outcome.edits.push(Edit::Remove { path: [at(index), vec![Step::from(key.as_str())]].concat() });
        }
        let present = entry.get("name").and_then(Value::as_str).unwrap_or_default();
        let mut container =
            if keys.iter().any(|key| key == "name") { name(&wanted) } else { present.to_owned() };
        if container.is_empty()
            && let Some(old) = self.old
            && let Some(default) = scope.default_container(old, config.document.value())
        {
            // The name that wrangler makes follows the class: where the class is renamed, it has to be written.
            let path = [at(index), vec![Step::from("name")]].concat();
            outcome.edits.push(Edit::Set { path, value: json!(default) });
            keys.insert(0, "name".to_owned());
            container = default;
        }
        if locked.is_none() {
            outcome.adopted.push(format!("adopted the container at `{}`", dotted(&at(index))));
        }
        outcome.entry = Some(Entry { container, keys });
        outcome
    }

    /// What to do with a key of a hand-written entry that differs from what koze would write.
    fn adopt(&self, key: &str, present: &Value) -> Adoption {
        match key {
            "class_name" => Adoption::Replace,
            "image" => match present.as_str() {
                Some(present)
                    if image::is_default_repository(present)
                        && image::is_default_repository(&self.image.image) =>
                {
                    Adoption::Replace
                }
                _ if self.declares("image") => Adoption::Contradiction,
                _ => Adoption::Keep,
            },
            _ if self.declares(key) => Adoption::Contradiction,
            _ => Adoption::Keep,
        }
    }

    /// Brings the binding of one level about; `moving` are the indices of bindings that belong to sandboxes.
    pub fn reconcile_binding(
        &self,
        level: &Level,
        moving: &BTreeSet<usize>,
        config: &Config,
        findings: &mut Findings,
    ) -> Outcome {
        let class = self.sandbox.class.value.as_str();
        let binding = self.sandbox.names.binding.as_str();
        let keys = [Step::from("durable_objects"), Step::from("bindings")];
        let at = |index: usize, key: Option<&str>| {
            let mut path = level.scope.path(&keys);
            path.push(Step::from(index));
            path.extend(key.map(Step::from));
            path
        };
        let mut outcome = Outcome::default();
        let text = |index: usize, key: &str| level.bindings.list[index].get(key).and_then(Value::as_str);

        let own = self.own_binding(level);
        let named = level
            .bindings
            .named(binding)
            .iter()
            .find(|index| Some(**index) != own && !moving.contains(*index));
        if let Some(index) = named {
            let other = text(*index, "class_name").unwrap_or_default();
            let (message, remedy) = if other == class {
                (format!("the binding `{binding}` is there twice"), "take one of them out".to_owned())
            } else {
                let remedy = format!(
                    "`{}` gives this binding to `{class}`: rename the file, or the binding",
                    self.sandbox.file
                );
                (format!("the binding `{binding}` has the class `{other}`"), remedy)
            };
            self.contradict(message, &remedy, &at(*index, None), config, findings);
            return outcome;
        }
        if let Some(path) = level.others.get(binding) {
            let message = format!("`{binding}` is the name of a binding of another kind");
            let remedy = format!(
                "names are unique in `env`: `{}` gives this one to `{class}`, rename the file or the other",
                self.sandbox.file
            );
            self.contradict(message, &remedy, path, config, findings);
            return outcome;
        }
        match own {
            None => {
                let value = json!({ "name": binding, "class_name": class });
                outcome.edits.push(Edit::Push { path: level.scope.path(&keys), value });
            }
            Some(index) => {
                if text(index, "script_name").is_some() {
                    let message = format!("the binding `{binding}` belongs to another Worker");
                    let remedy = "the class of a sandbox is in this Worker: take `script_name` out";
                    self.contradict(message, remedy, &at(index, Some("script_name")), config, findings);
                    return outcome;
                }
                for (key, value) in [("name", binding), ("class_name", class)] {
                    if text(index, key) != Some(value) {
                        outcome.edits.push(Edit::Set { path: at(index, Some(key)), value: json!(value) });
                    }
                }
                if self.locked.is_none() {
                    outcome.adopted.push(format!("adopted the binding at `{}`", dotted(&at(index, None))));
                }
            }
        }
        // Other bindings of a renamed class would name a class that is no more.
        for index in self.old.map(|old| level.bindings.of_classes([old].into_iter())).unwrap_or_default() {
            if Some(index) != own && text(index, "script_name").is_none() {
                outcome.edits.push(Edit::Set { path: at(index, Some("class_name")), value: json!(class) });
            }
        }
        outcome
    }

    /// The index of the binding that is this sandbox's: the locked one, the one of its name and class, or, of a
    /// renamed class, any.
    pub fn own_binding(&self, level: &Level) -> Option<usize> {
        let own = level.bindings.of_classes(self.classes());
        let named = |name: &str| own.iter().copied().find(|index| level.bindings.named(name).contains(index));
        self.locked
            .and_then(|locked| named(&locked.binding))
            .or_else(|| named(&self.sandbox.names.binding))
            .or_else(|| level.bindings.of_classes(self.old.into_iter()).first().copied())
    }

    fn contradict_key(
        &self,
        key: &str,
        present: &Value,
        value: &Value,
        path: &Path,
        config: &Config,
        findings: &mut Findings,
    ) {
        let message = format!("`{key}` is {present} here, and {value} in `{}`", self.sandbox.file);
        let remedy = format!(
            "koze takes an entry over that fits: make both the same, or take `{key}` out of one of them"
        );
        self.contradict(message, &remedy, path, config, findings);
    }

    fn contradict(
        &self,
        message: String,
        remedy: &str,
        path: &[Step],
        config: &Config,
        findings: &mut Findings,
    ) {
        findings.push(Finding {
            rule: Rule::Contradiction { message, remedy: remedy.to_owned() },
            place: Some(config.place(path)),
            also: vec![(self.place.clone(), "the sandbox".to_owned())],
        });
    }
}

enum Adoption {
    /// The hand-written value stays, and stays the user's.
    Keep,
    /// koze's value takes its place.
    Replace,
    /// Both mean something else: nobody but the user can tell which.
    Contradiction,
}

/// A number as a person would write it: `1`, not `1.0`.
fn number(value: f64) -> Value {
    #[allow(clippy::cast_possible_truncation, reason = "the value is whole and small")]
    if value.fract() == 0.0 && value.abs() < 1e9 { json!(value as i64) } else { json!(value) }
}

/// The edits that take the entries of a sandbox out of one level: what is koze's, not what is merely called so.
pub fn remove(locked: &Locked, level: &Level) -> Vec<Edit> {
    let local = |index: &&usize| level.bindings.list[**index].get("script_name").is_none();
    let class = level.bindings.of_classes([locked.class.as_str()].into_iter());
    let binding =
        level.bindings.named(&locked.binding).iter().filter(|index| class.contains(index)).find(local);
    let container = level.containers.of_classes([locked.class.as_str()].into_iter());
    let keys = [Step::from("durable_objects"), Step::from("bindings")];
    let at = |keys: &[Step], index: usize| Edit::Remove {
        path: [level.scope.path(keys), vec![Step::from(index)]].concat(),
    };
    let containers = container.into_iter().take(1).map(|index| at(&[Step::from("containers")], index));
    containers.chain(binding.map(|index| at(&keys, *index))).collect()
}
