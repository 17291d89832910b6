//! The container of a sandbox at one level.

use std::collections::BTreeSet;

use koze_model::Rule;
use koze_model::image::{self, ImageSource};
use serde_json::{Map, Value, json};

use super::{Outcome, Wanted};
use crate::finding::{Finding, Findings};
use crate::lock::Entry;
use crate::wrangler::document::{Edit, Path, Step};
use crate::wrangler::level::Level;
use crate::wrangler::locate::Config;
use crate::wrangler::scope::dotted;

/// The scheduling policy under which the Durable Object chooses image and instance, and the entry says neither.
const DURABLE_OBJECT: &str = "durable_object";

enum Adoption {
    /// The hand-written value stays, and stays the user's.
    Keep,
    /// koze's value takes its place.
    Replace,
    /// Both mean something else: nobody but the user can tell which.
    Contradiction,
}

impl Wanted<'_> {
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
        let message = format!("`{key}` is {present} here, and {value} in `{}`", self.sandbox.file);
        let dockerfile = match self.image.source {
            ImageSource::SiblingDockerfile if key == "image" => "; the Dockerfile beside the sandbox counts",
            _ => "",
        };
        let remedy = format!(
            "koze takes an entry over that fits: make both the same, or take `{key}` out of one of them{dockerfile}"
        );
        self.contradict(message, &remedy, path, config, findings);
    }
}
