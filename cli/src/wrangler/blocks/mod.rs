//! Computes the required entries of a sandbox and the edits that establish them.
//!
//! koze changes what it owns, adopts hand-written entries that fit, and reports those that contradict.

mod binding;
mod container;
mod entry;
pub(crate) mod former;
pub(crate) mod policy;

use std::path::PathBuf;

use koze_edit::{Edit, Step};
use koze_model::image::ImageSource;
use koze_model::{Backend, Sandbox};
use serde_json::{Map, Value};

use super::level::Level;
use super::locate::Config;
use super::scope::Scope;
use crate::finding::{Finding, Findings, Place};
use crate::images::Resolved;
use crate::lock::{Entry, Kept, Locked};
use crate::rules::Rule;

pub use binding::elsewhere;
pub use container::Above;

/// A sandbox with everything that its entries depend on.
pub struct Wanted<'a> {
    /// The sandbox.
    pub sandbox: &'a Sandbox,
    /// Its images according to its source and the SDK, the default one first.
    pub images: Vec<Resolved>,
    /// The directory of its source file.
    pub source_dir: PathBuf,
    /// The lock entry of its class, under its current or former name.
    pub locked: Option<&'a Locked>,
    /// The lock entry of its class if an earlier build kept it without a sandbox.
    pub kept: Option<&'a Kept>,
    /// The former name of the class if it was renamed.
    pub old: Option<&'a str>,
    /// A location in the source file.
    pub place: Place,
}

/// The result for one sandbox at one level.
#[derive(Default)]
pub struct Outcome {
    /// The edits.
    pub edits: Vec<Edit>,
    /// What koze owns from now on.
    pub entry: Option<Entry>,
    /// Descriptions of what was adopted.
    pub adopted: Vec<String>,
    /// The image of the entry and its related keys, if the user owns them.
    pub kept: Option<Map<String, Value>>,
}

impl Wanted<'_> {
    /// Returns the application's name: from the attribute; or from the lock, because wrangler identifies applications
    /// by name; or derived from the file name.
    fn application_name(&self, scope: &Scope) -> String {
        let locked = self.locked.and_then(|locked| locked.entry(scope.environment.as_deref()));
        match (&self.sandbox.attributes.name, locked) {
            (None, Some(locked)) if !locked.container.is_empty() && !self.changes_policy() => {
                locked.container.to_owned()
            }
            _ => self.fresh_name(scope),
        }
    }

    /// Returns whether the last build had another scheduling policy. An application keeps the policy that it was created
    /// with, so the container becomes another application.
    fn changes_policy(&self) -> bool {
        self.locked.is_some_and(|locked| (locked.backend == Backend::Managed.word()) != self.is_managed())
    }

    /// Returns the applications that the class had before the policy changed.
    pub fn former_containers(&self) -> Vec<String> {
        let Some(locked) = self.locked else { return Vec::new() };
        let mut former = locked.former_containers.clone();
        if self.changes_policy() {
            let environments = locked.environments.values().map(|entry| &entry.container);
            former.extend(std::iter::once(&locked.container).chain(environments).cloned());
            former.retain(|name| !name.is_empty());
        }
        former
    }

    /// Returns its default image.
    pub fn image(&self) -> &Resolved {
        &self.images[0]
    }

    /// Returns whether Durable Objects start its containers.
    fn is_managed(&self) -> bool {
        self.sandbox.attributes.backend() == Backend::Managed
    }

    /// Returns whether the attribute itself, not a default, sets a key.
    fn is_declared(&self, key: &str) -> bool {
        let attributes = &self.sandbox.attributes;
        match key {
            "image" => matches!(self.image().source, ImageSource::Attribute | ImageSource::SiblingDockerfile),
            "image_build_context" => attributes.image_build_context.is_some(),
            "instance_type" => attributes.instance.is_some() || attributes.instance_type.is_some(),
            "name" => attributes.name.is_some(),
            _ => true,
        }
    }

    /// Returns the name for a new entry. An empty name in the lock means that the entry has none. Where the class had
    /// another application, its name is taken.
    fn fresh_name(&self, scope: &Scope) -> String {
        let name = self.sandbox.container();
        if self.changes_policy() && self.sandbox.attributes.name.is_none() {
            return scope.container(&format!("{name}-managed"));
        }
        scope.container(name)
    }

    /// Returns the class under its current and its former name.
    pub fn classes(&self) -> impl Iterator<Item = &str> {
        std::iter::once(self.sandbox.class.value.as_str()).chain(self.old)
    }

    /// Reports a hand-written entry that contradicts the sandbox.
    fn report_contradiction(
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

/// Returns the edit that removes the container of a class from one level.
pub fn remove_container(class: &str, level: &Level) -> Option<Edit> {
    let index = level.containers.of_classes([class].into_iter()).into_iter().next()?;
    Some(Edit::Remove { path: level.scope.path(&[Step::from("containers"), Step::from(index)]) })
}

/// Returns the index of koze's binding at one level. Both its name and its class must match.
pub fn binding(class: &str, binding: &str, level: &Level) -> Option<usize> {
    let of_class = level.bindings.of_classes([class].into_iter());
    let local = |index: &&usize| level.bindings.list[**index].get("script_name").is_none();
    level.bindings.named(binding).iter().filter(|index| of_class.contains(index)).find(local).copied()
}

/// Returns the edit that removes the binding.
pub fn remove_binding(class: &str, name: &str, level: &Level) -> Option<Edit> {
    let keys =
        [Step::from("durable_objects"), Step::from("bindings"), Step::from(binding(class, name, level)?)];
    Some(Edit::Remove { path: level.scope.path(&keys) })
}
