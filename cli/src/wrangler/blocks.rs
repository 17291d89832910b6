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
    /// What was taken over, as half sentences.
    pub adopted: Vec<String>,
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
            (None, Some(locked)) => locked.container,
            _ => scope.container(self.sandbox.container()),
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

    fn is_class(&self, entry: &Value) -> bool {
        let class = entry.get("class_name").and_then(Value::as_str);
        class.is_some() && (class == Some(&self.sandbox.class.value) || class == self.old)
    }

    /// Brings the container entry of one level about.
    pub fn reconcile_container(&self, scope: &Scope, config: &Config, findings: &mut Findings) -> Outcome {
        let wanted = self.container(scope, config.dir());
        let list = scope.list(&["containers"]);
        let at = |index: usize| scope.path(&[Step::from("containers"), Step::from(index)]);
        let mut outcome = Outcome::default();

        let own: Vec<usize> = (0..list.len()).filter(|index| self.is_class(&list[*index])).collect();
        if let [_, second, ..] = own.as_slice() {
            let message = format!("two containers have the class `{}`", self.sandbox.class.value);
            self.contradict(
                message,
                "a class has one container: take one of them out",
                &at(*second),
                config,
                findings,
            );
            return outcome;
        }
        let same_name = list
            .iter()
            .enumerate()
            .find(|(index, entry)| !own.contains(index) && entry.get("name") == wanted.get("name"));
        if let Some((index, _)) = same_name {
            let message = format!("another container is called {}", wanted["name"]);
            let remedy =
                "container names are unique: give the sandbox another one, `#[sandbox(name = \"…\")]`";
            self.contradict(message, remedy, &at(index), config, findings);
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

        let entry = &list[index];
        let locked = self.locked.and_then(|locked| locked.entry(scope.environment.as_deref()));
        let owned: BTreeSet<String> = locked.iter().flat_map(|locked| locked.keys.iter().cloned()).collect();
        let mut keys = Vec::new();
        for (key, value) in &wanted {
            let path = [at(index), vec![Step::from(key.as_str())]].concat();
            let present = entry.get(key);
            let keep = match present {
                None => key == "name",
                Some(present) if present == value || owned.contains(key) => false,
                Some(present) => match self.adopt(key, present) {
                    Adoption::Keep => true,
                    Adoption::Replace => false,
                    Adoption::Contradiction => {
                        self.contradict_key(key, present, value, &path, config, findings);
                        continue;
                    }
                },
            };
            if keep {
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
        // A nameless entry lives under the name wrangler makes for it: writing one would make a second application.
        let container = match entry.get("name").and_then(Value::as_str) {
            Some(present) if !keys.contains(&"name".to_owned()) => present.to_owned(),
            None => String::new(),
            Some(_) => name(&wanted),
        };
        if locked.is_none() {
            outcome.adopted.push(format!("the container at `{}`", dotted(&at(index))));
        }
        outcome.entry = Some(Entry { container, keys });
        outcome
    }

    /// What to do with a key of a hand-written entry that differs from what koze would write.
    fn adopt(&self, key: &str, present: &Value) -> Adoption {
        match key {
            "class_name" => Adoption::Replace,
            "name" if !self.declares("name") => Adoption::Keep,
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

    /// Brings the binding of one level about; `moving` are the indices of bindings that other sandboxes rename.
    pub fn reconcile_binding(
        &self,
        scope: &Scope,
        moving: &BTreeSet<usize>,
        config: &Config,
        findings: &mut Findings,
    ) -> Outcome {
        let class = self.sandbox.class.value.as_str();
        let binding = self.sandbox.names.binding.as_str();
        let keys = [Step::from("durable_objects"), Step::from("bindings")];
        let list = scope.list(&["durable_objects", "bindings"]);
        let at = |index: usize, key: Option<&str>| {
            let mut path = scope.path(&keys);
            path.push(Step::from(index));
            path.extend(key.map(Step::from));
            path
        };
        let mut outcome = Outcome::default();
        let text = |index: usize, key: &str| list[index].get(key).and_then(Value::as_str);

        let own = self.own_binding(list);
        let named = (0..list.len()).find(|index| {
            Some(*index) != own && text(*index, "name") == Some(binding) && !moving.contains(index)
        });
        if let Some(index) = named {
            let message = format!(
                "the binding `{binding}` has the class `{}`",
                text(index, "class_name").unwrap_or("?")
            );
            let remedy = format!(
                "`{}` gives this binding to `{class}`: rename the file, or the binding",
                self.sandbox.file
            );
            self.contradict(message, &remedy, &at(index, None), config, findings);
            return outcome;
        }
        match own {
            None => {
                let value = json!({ "name": binding, "class_name": class });
                outcome.edits.push(Edit::Push { path: scope.path(&keys), value });
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
                    outcome.adopted.push(format!("the binding at `{}`", dotted(&at(index, None))));
                }
            }
        }
        // Other bindings of a renamed class would name a class that is no more.
        for index in (0..list.len()).filter(|index| Some(*index) != own) {
            if self.old.is_some()
                && text(index, "class_name") == self.old
                && text(index, "script_name").is_none()
            {
                outcome.edits.push(Edit::Set { path: at(index, Some("class_name")), value: json!(class) });
            }
        }
        outcome
    }

    /// The index of the binding that is this sandbox's: the locked one, the one of its name and class, or, of a
    /// renamed class, any.
    pub fn own_binding(&self, list: &[Value]) -> Option<usize> {
        let named = |name: &str| {
            list.iter().position(|entry| {
                self.is_class(entry) && entry.get("name").and_then(Value::as_str) == Some(name)
            })
        };
        self.locked
            .and_then(|locked| named(&locked.binding))
            .or_else(|| named(&self.sandbox.names.binding))
            .or_else(|| {
                let old = self.old?;
                list.iter().position(|entry| entry.get("class_name").and_then(Value::as_str) == Some(old))
            })
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

/// The edits that take the entries of a sandbox out of one level; the indices are those it has there.
pub fn remove(locked: &Locked, scope: &Scope) -> (Vec<usize>, Vec<usize>) {
    let own = |entry: &Value| entry.get("class_name").and_then(Value::as_str) == Some(&locked.class);
    let containers = scope.list(&["containers"]);
    let bindings = scope.list(&["durable_objects", "bindings"]);
    let indices = |list: &[Value]| (0..list.len()).filter(|index| own(&list[*index])).collect();
    (indices(containers), indices(bindings))
}
