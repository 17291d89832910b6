//! Reconciles the container of a sandbox at one level.

use std::collections::BTreeSet;

use koze_edit::{Edit, Path, Step};
use koze_model::image::{self, ImageSource};
use koze_model::names;
use serde_json::{Map, Value, json};

use super::former::Former;
use super::{Outcome, Wanted};
use crate::finding::Findings;
use crate::images::Resolved;
use crate::lock::Entry;
use crate::paths;
use crate::wrangler::level::Level;
use crate::wrangler::locate::Config;
use crate::wrangler::scope::{Scope, dotted};

/// The top level's entry, which entries of environments follow.
#[derive(Clone, Copy, Default)]
pub struct Above<'a> {
    /// The application's name. It is empty if wrangler derives it.
    pub application: Option<&'a str>,
    /// The image, and the keys that configure its build, if the user owns them.
    pub image: Option<&'a Map<String, Value>>,
}

/// The image of an entry, and the keys that configure its build.
const IMAGE_KEYS: [&str; 3] = ["image", "image_build_context", "image_vars"];

enum Adoption {
    /// The hand-written value is kept and still belongs to the user.
    Keep,
    /// koze's value replaces it.
    Replace,
    /// The values contradict each other, and only the user can decide.
    Contradiction,
}

impl Wanted<'_> {
    /// Reconciles the container entry at one level, key by key:
    ///
    /// | the entry | the attribute | what happens |
    /// |---|---|---|
    /// | lacks the key | | koze writes it, except an undeclared `name`, which wrangler derives |
    /// | has a value that koze wrote, according to the lock | | koze writes its own |
    /// | has koze's value | | koze adopts it, and changes it from then on |
    /// | has another value | does not declare the key | it stays the user's |
    /// | has another value | declares the key | an error: only the user can decide |
    ///
    /// `decide_adoption` has the exceptions for images. In an environment, an image of the user's in `above`
    /// replaces one that koze wrote; the user owns it there, too.
    pub fn reconcile_container(
        &self,
        level: &Level,
        above: Above,
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
            self.report_contradiction(message, remedy, &at(*second), config, findings);
            return outcome;
        }
        let name = |entry: &Map<String, Value>| entry["name"].as_str().unwrap_or_default().to_owned();
        let Some(index) = own.first().copied() else {
            return self.new_entry(wanted, scope, above, config);
        };

        let entry = &level.containers.list[index];
        let locked = self.locked.and_then(|locked| locked.entry(scope.environment.as_deref()));
        let owned: BTreeSet<&str> =
            locked.iter().flat_map(|locked| locked.keys).map(String::as_str).collect();
        if let Some(entry) = entry.as_object() {
            self.check_policy(entry, &at(index), &|key| owned.contains(key), config, findings);
        }
        let former = Former::of(entry);
        let limits = former.limits();
        let replaced = above.image.filter(|_| self.wrote_default_image(scope, entry, &owned));
        if let Some(image) = replaced {
            outcome = with_image(image, entry, &at(index), config);
        }
        let is_replaced = |key: &str| replaced.is_some_and(|image| image.contains_key(key));
        let mut keys = Vec::new();
        for (key, value) in wanted.iter().filter(|(key, _)| !is_replaced(key)) {
            let slot = former.slot(key, owned.contains(key.as_str()));
            let present = slot.present;
            // The entry was found by a link in `exports`, which names its class.
            if key == "class_name" && present.is_none() {
                continue;
            }
            let path = || [at(index), slot.steps()].concat();
            if let Some(limits) = limits.as_ref().filter(|_| key == "instance_type") {
                if self.is_declared(key) && limits != value {
                    let path = [at(index), vec![Step::from("configuration")]].concat();
                    self.contradict_key(key, limits, value, &path, config, findings);
                }
                continue;
            }
            let same = present.is_some_and(|present| is_equivalent(key, present, value, config));
            let ours = match present {
                _ if owned.contains(slot.name) => true,
                // wrangler derives the name of an unnamed entry. Another name would create a second application, so
                // only an explicit name in the attribute is written.
                None => key != "name" || self.is_declared("name"),
                // A locked name that the user owned before the file was moved still belongs to the user.
                Some(present) if key == "name" && !self.is_declared("name") => {
                    *present == json!(self.fresh_name(scope))
                }
                Some(_) if same => true,
                Some(present) => match self.decide_adoption(key, present) {
                    Adoption::Keep => false,
                    Adoption::Replace => true,
                    Adoption::Contradiction => {
                        self.contradict_key(key, present, value, &path(), config, findings);
                        continue;
                    }
                },
            };
            if !ours {
                if key == "image" {
                    outcome.kept = present.map(|image| kept_image(entry, image));
                }
                continue;
            }
            keys.push(slot.name.to_owned());
            if !same {
                outcome.edits.push(Edit::Set { path: path(), value: value.clone() });
            }
        }
        let dropped = |key: &&str| {
            !keys.iter().any(|kept| kept == key) && !is_replaced(key) && entry.get(*key).is_some()
        };
        for key in owned.iter().copied().filter(dropped) {
            outcome.edits.push(Edit::Remove { path: [at(index), vec![Step::from(key)]].concat() });
        }
        let present = entry.get("name").and_then(Value::as_str).unwrap_or_default();
        let mut container =
            if keys.iter().any(|key| key == "name") { name(&wanted) } else { present.to_owned() };
        if container.is_empty()
            && let Some(old) = self.old
            && let Some(default) = scope.default_container(old, config.document.value())
        {
            // wrangler derives the name from the class, so write it if the class is renamed.
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

    /// Returns the outcome for a level without an entry: one with the image of the top level's entry if the user owns it.
    fn new_entry(
        &self,
        mut entry: Map<String, Value>,
        scope: &Scope,
        above: Above,
        config: &Config,
    ) -> Outcome {
        if let Some(application) = self.application_like(scope, above, config) {
            entry.insert("name".to_owned(), json!(application));
        }
        let container = entry["name"].as_str().unwrap_or_default().to_owned();
        let image = above.image.cloned().unwrap_or_default();
        let keys = entry.keys().filter(|key| !image.contains_key(*key)).cloned().collect();
        entry.extend(image);
        let path = scope.path(&[Step::from("containers")]);
        Outcome {
            edits: vec![Edit::Push { path, value: Value::Object(entry) }],
            entry: Some(Entry { container, keys }),
            kept: above.image.cloned(),
            ..Outcome::default()
        }
    }

    /// Returns whether an earlier koze wrote an entry of an environment with the default image, although the top level's
    /// entry had another one. The entry's name tells it from one that the user wrote with the same image.
    fn wrote_default_image(&self, scope: &Scope, entry: &Value, owned: &BTreeSet<&str>) -> bool {
        let has_derived_name = entry.get("name").is_some_and(|name| *name == json!(self.fresh_name(scope)));
        let is_owned = owned.contains("name") && owned.contains("image");
        has_derived_name && is_owned && !self.is_declared("name") && !self.is_declared("image")
    }

    /// Returns the name of an environment's new application if it follows the top level's: an application that the user
    /// named, or wrangler, has a name that no other Worker of the account has.
    fn application_like(&self, scope: &Scope, above: Above, config: &Config) -> Option<String> {
        let known = self.locked.and_then(|locked| locked.entry(scope.environment.as_deref()));
        if self.is_declared("name") || scope.environment.is_none() || known.is_some() {
            return None;
        }
        let class = &self.sandbox.class.value;
        let name = match above.application? {
            "" => scope.default_container(class, config.document.value())?,
            application => scope.container(application),
        };
        names::is_container_name(&name).then_some(name)
    }

    /// Decides about a key of a hand-written entry that differs from koze's value.
    fn decide_adoption(&self, key: &str, present: &Value) -> Adoption {
        match key {
            "class_name" => Adoption::Replace,
            // The entry runs the base images without the guest.
            "images" if self.is_without_guest(present) => Adoption::Replace,
            // The entry runs the base image without the guest, so replace it by the image with the guest.
            "image" if self.image().guest.is_some() && *present == json!(self.image().image) => {
                Adoption::Replace
            }
            "image" => match present.as_str() {
                Some(present)
                    if image::is_default_repository(present)
                        && image::is_default_repository(&self.image().image) =>
                {
                    // Another tag is just another version, but another variant is another image.
                    let lost = image::variant(present).is_some();
                    let same = image::variant(present) == image::variant(&self.image().image);
                    if same || !lost { Adoption::Replace } else { Adoption::Contradiction }
                }
                _ if self.is_declared("image") => Adoption::Contradiction,
                _ => Adoption::Keep,
            },
            _ if self.is_declared(key) => Adoption::Contradiction,
            _ => Adoption::Keep,
        }
    }

    /// Returns whether `images` of a hand-written entry are the sandbox's, built without koze's guest.
    fn is_without_guest(&self, present: &Value) -> bool {
        let Some(present) = present.as_object() else { return false };
        let is_same = |image: &Resolved| {
            let there = present.get(&image.name).and_then(|there| there.get("dockerfile"));
            there.is_some_and(|there| *there == json!(image.image))
        };
        present.len() == self.images.len() && self.images.iter().all(is_same)
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
        let dockerfile = match self.image().source {
            ImageSource::SiblingDockerfile if key == "image" => {
                "; the Dockerfile next to the sandbox takes precedence"
            }
            _ => "",
        };
        let remedy = format!(
            "koze adopts matching entries only: make both the same, or remove `{key}` from one of them{dockerfile}"
        );
        self.report_contradiction(message, &remedy, path, config, findings);
    }
}

/// Returns the outcome that sets the image of the entry at `path`, which the user owns from then on.
fn with_image(image: &Map<String, Value>, entry: &Value, path: &Path, config: &Config) -> Outcome {
    let differs = |key: &str, value: &Value| {
        !entry.get(key).is_some_and(|present| is_equivalent(key, present, value, config))
    };
    let set = |(key, value): (&String, &Value)| Edit::Set {
        path: [path.clone(), vec![Step::from(key.as_str())]].concat(),
        value: value.clone(),
    };
    Outcome {
        edits: image.iter().filter(|(key, value)| differs(key, value)).map(set).collect(),
        adopted: vec![format!("set the image of `{}` to that of the top level", dotted(path))],
        kept: Some(image.clone()),
        ..Outcome::default()
    }
}

/// Returns whether a key's value is equivalent to koze's. Paths can be written in several ways.
fn is_equivalent(key: &str, present: &Value, value: &Value, config: &Config) -> bool {
    present == value
        || match key {
            "image" | "image_build_context" => is_same_path(present, value, config),
            "images" => is_same_images(present, value, config),
            _ => false,
        }
}

/// Returns whether two values are the same path, relative to the configuration.
fn is_same_path(present: &Value, value: &Value, config: &Config) -> bool {
    let path = |value: &Value| value.as_str().map(|path| paths::normal(&config.dir().join(path)));
    path(present).is_some_and(|present| Some(present) == path(value))
}

/// Returns whether two values of `images` are equivalent.
fn is_same_images(present: &Value, value: &Value, config: &Config) -> bool {
    let (Some(present), Some(value)) = (present.as_object(), value.as_object()) else { return false };
    let is_same = |(name, image): (&String, &Value)| {
        let (Some(there), Some(image)) = (present.get(name).and_then(Value::as_object), image.as_object())
        else {
            return false;
        };
        let is_same_key = |(key, value): (&String, &Value)| {
            let is_path = key == "dockerfile" || key == "build_context";
            there
                .get(key)
                .is_some_and(|there| there == value || (is_path && is_same_path(there, value, config)))
        };
        there.len() == image.len() && image.iter().all(is_same_key)
    };
    present.len() == value.len() && value.iter().all(is_same)
}

/// Returns a user's image with the entry's other keys that configure its build.
fn kept_image(entry: &Value, image: &Value) -> Map<String, Value> {
    let beside = IMAGE_KEYS[1..].iter().filter_map(|key| Some(((*key).to_owned(), entry.get(*key)?.clone())));
    std::iter::once(("image".to_owned(), image.clone())).chain(beside).collect()
}
