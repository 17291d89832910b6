//! The container of a sandbox at one level.

use std::collections::BTreeSet;

use koze_edit::{Edit, Path, Step};
use koze_model::image::{self, ImageSource};
use serde_json::{Map, Value, json};

use super::former::{Former, Slot};
use super::{Outcome, Wanted};
use crate::finding::{Finding, Findings};
use crate::lock::Entry;
use crate::paths;
use crate::rules::Rule;
use crate::wrangler::level::Level;
use crate::wrangler::locate::Config;
use crate::wrangler::scope::dotted;

/// The scheduling policy under which the Durable Object chooses image and instance, and the entry says neither.
const DURABLE_OBJECT: &str = "durable_object";

/// The image of an entry, and the keys that say how it is built.
const IMAGE_KEYS: [&str; 3] = ["image", "image_build_context", "image_vars"];

enum Adoption {
    /// The hand-written value stays, and stays the user's.
    Keep,
    /// koze's value takes its place.
    Replace,
    /// Both mean something else: nobody but the user can tell which.
    Contradiction,
}

impl Wanted<'_> {
    /// Brings the container entry of one level about. `above` is the image of the top level's entry, where that is the
    /// user's: a new entry of an environment gets the same, and there it is the user's as well.
    pub fn reconcile_container(
        &self,
        level: &Level,
        above: Option<&Map<String, Value>>,
        config: &Config,
        findings: &mut Findings,
    ) -> Outcome {
        let scope = level.scope;
        let wanted = self.container(scope, config.dir());
        let at = |index: usize| scope.path(&[Step::from("containers"), Step::from(index)]);
        let mut outcome = Outcome::default();

        let own = level.containers.of_classes(self.classes());
        if let [_, second, ..] = own.as_slice() {
            let message = format!("two containers have the class `{}`", self.sandbox.class.value);
            let remedy = "a class has one container: remove one of them";
            self.contradict(message, remedy, &at(*second), config, findings);
            return outcome;
        }
        let name = |entry: &Map<String, Value>| entry["name"].as_str().unwrap_or_default().to_owned();
        let Some(index) = own.first().copied() else {
            let path = scope.path(&[Step::from("containers")]);
            outcome.kept = above.cloned();
            let above = above.cloned().unwrap_or_default();
            let keys = wanted.keys().filter(|key| !above.contains_key(*key)).cloned().collect();
            outcome.entry = Some(Entry { container: name(&wanted), keys });
            let mut entry = wanted;
            entry.extend(above);
            outcome.edits.push(Edit::Push { path, value: Value::Object(entry) });
            return outcome;
        };

        let entry = &level.containers.list[index];
        if let Some(policy) = entry.get("scheduling_policy").filter(|policy| **policy == DURABLE_OBJECT) {
            let path = [at(index), vec![Step::from("scheduling_policy")]].concat();
            findings.push(Finding {
                rule: Rule::SchedulingPolicy { policy: policy.to_string() },
                place: Some(config.place(&path)),
                also: vec![(self.place.clone(), "the sandbox".to_owned())],
            });
        }
        let locked = self.locked.and_then(|locked| locked.entry(scope.environment.as_deref()));
        let owned: BTreeSet<String> = locked.iter().flat_map(|locked| locked.keys.iter().cloned()).collect();
        let former = Former::of(entry);
        let limits = former.limits();
        let mut keys = Vec::new();
        for (key, value) in &wanted {
            let Slot { name: slot, steps, present } = former.slot(key, owned.contains(key));
            let path = [at(index), steps].concat();
            if let Some(limits) = limits.as_ref().filter(|_| key == "instance_type") {
                if self.declares(key) && limits != value {
                    let path = [at(index), vec![Step::from("configuration")]].concat();
                    self.contradict_key(key, limits, value, &path, config, findings);
                }
                continue;
            }
            let same = present.is_some_and(|present| same(key, present, value, config));
            let ours = match present {
                _ if owned.contains(&slot) => true,
                // A nameless entry lives under the name wrangler makes for it; with another, a second application would
                // be made, which only the attribute can want.
                None => key != "name" || self.declares("name"),
                // The locked name of a file that has moved is the user's where it was the user's.
                Some(present) if key == "name" && !self.declares("name") => {
                    *present == json!(self.fresh_name(scope))
                }
                Some(_) if same => true,
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
                    outcome.kept = present.map(|image| kept(entry, image));
                }
                continue;
            }
            keys.push(slot);
            if !same {
                outcome.edits.push(Edit::Set { path, value: value.clone() });
            }
        }
        for key in owned.iter().filter(|key| !keys.contains(key) && entry.get(*key).is_some()) {
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
            // What the entry runs as it is, and is built on from now on.
            "image" if self.image.guest.is_some() && *present == json!(self.image.image) => Adoption::Replace,
            "image" => match present.as_str() {
                Some(present)
                    if image::is_default_repository(present)
                        && image::is_default_repository(&self.image.image) =>
                {
                    // Another tag is another version; another variant is another image.
                    let lost = image::variant(present).is_some();
                    let same = image::variant(present) == image::variant(&self.image.image);
                    if same || !lost { Adoption::Replace } else { Adoption::Contradiction }
                }
                _ if self.declares("image") => Adoption::Contradiction,
                _ => Adoption::Keep,
            },
            _ if self.declares(key) => Adoption::Contradiction,
            _ => Adoption::Keep,
        }
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
        let message = format!("`{key}` is {present} here, but {value} in `{}`", self.sandbox.file);
        let dockerfile = match self.image.source {
            ImageSource::SiblingDockerfile if key == "image" => {
                "; the Dockerfile next to the sandbox takes precedence"
            }
            _ => "",
        };
        let remedy = format!(
            "koze adopts matching entries only: make both the same, or remove `{key}` from one of them{dockerfile}"
        );
        self.contradict(message, &remedy, path, config, findings);
    }
}

/// Whether a key's value means what koze would write: a path may be written in several ways.
fn same(key: &str, present: &Value, value: &Value, config: &Config) -> bool {
    let path = |value: &Value| value.as_str().map(|path| paths::normal(&config.dir().join(path)));
    let is_path = key == "image" || key == "image_build_context";
    present == value || (is_path && path(present).is_some_and(|present| Some(present) == path(value)))
}

/// The image of a user's entry, with the keys beside it that say how it is built.
fn kept(entry: &Value, image: &Value) -> Map<String, Value> {
    let beside = IMAGE_KEYS[1..].iter().filter_map(|key| Some(((*key).to_owned(), entry.get(*key)?.clone())));
    std::iter::once(("image".to_owned(), image.clone())).chain(beside).collect()
}
