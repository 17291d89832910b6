//! One sandbox: while it is planned, and what the plan says of it in the end.

use std::collections::BTreeMap;

use koze_core::provider::Image;
use koze_model::image::ImageSource;
use koze_model::{Backend, Sandbox};
use serde_json::{Map, Value};

use crate::images::{self, Resolved};
use crate::lock::{self, Locked};
use crate::wrangler::blocks::Wanted;
use crate::wrangler::lifecycle::Lifecycle;

/// A sandbox as the plan leaves it.
#[derive(Debug, Clone)]
pub struct Planned {
    /// Its file, relative to the package.
    pub file: String,
    /// Its binding.
    pub binding: String,
    /// Its class.
    pub class: String,
    /// Its container application at the top level, as wrangler calls it.
    pub container: String,
    /// Its image at the top level.
    pub image: String,
    /// What decided the image.
    pub image_source: ImageSource,
    /// What runs behind the class.
    pub backend: Backend,
    /// Its image in each environment that koze keeps in step.
    pub environments: Vec<(String, String)>,
    /// Its image as a provider of sandboxes takes it.
    pub provided: Image,
}

impl Planned {
    /// Returns whether wrangler builds the image.
    pub fn is_built(&self) -> bool {
        self.backend == Backend::Native || self.dockerfile().is_some()
    }

    /// Returns the Dockerfile that the image is built from, relative to the wrangler configuration.
    pub fn dockerfile(&self) -> Option<&str> {
        let image = self.image.as_str();
        (image.starts_with("./") || image.starts_with("../")).then_some(image)
    }
}

/// A sandbox while its entries are planned, level by level.
pub(super) struct Planning<'a> {
    pub(super) wanted: Wanted<'a>,
    /// What koze owns of its container entries, by environment.
    pub(super) entries: BTreeMap<Option<String>, lock::Entry>,
    /// The image of the top level's entry, where it is the user's, with the keys that belong to it.
    pub(super) kept: Option<Map<String, Value>>,
    /// The images of entries that are the user's, by environment.
    pub(super) kept_images: BTreeMap<Option<String>, String>,
}

impl<'a> Planning<'a> {
    /// Starts with the entries that the lock records: those of environments that koze does not look at stay recorded.
    pub(super) fn new(wanted: Wanted<'a>) -> Self {
        let environments = wanted.locked.map(|locked| locked.environments.clone()).unwrap_or_default();
        let entries =
            environments.into_iter().map(|(environment, entry)| (Some(environment), entry)).collect();
        Planning { wanted, entries, kept: None, kept_images: BTreeMap::new() }
    }

    pub(super) fn sandbox(&self) -> &'a Sandbox {
        self.wanted.sandbox
    }

    /// Returns its image at the top level: that of the entry where it is the user's.
    pub(super) fn image(&self) -> Resolved {
        match self.kept_images.get(&None) {
            Some(kept) => Resolved::new(kept.clone(), ImageSource::Configuration),
            None => self.wanted.image.clone(),
        }
    }

    /// Returns its image in an environment.
    fn image_in(&self, environment: &str) -> String {
        let kept = self.kept_images.get(&Some(environment.to_owned()));
        kept.unwrap_or(&self.wanted.image.image).clone()
    }

    /// Returns what the plan says of it; `container` names the application where the lock does not, `environments` are
    /// those that koze keeps in step.
    pub(super) fn planned<'e>(
        &self,
        locked: &Locked,
        container: impl Fn(&str) -> Option<String>,
        environments: impl Iterator<Item = &'e String>,
    ) -> Planned {
        let sandbox = self.sandbox();
        let image = self.image();
        let made = || container(&locked.class).unwrap_or_default();
        Planned {
            file: sandbox.file.clone(),
            binding: sandbox.names.binding.clone(),
            class: sandbox.class.value.clone(),
            container: if locked.container.is_empty() { made() } else { locked.container.clone() },
            environments: environments.map(|name| (name.clone(), self.image_in(name))).collect(),
            backend: sandbox.attributes.backend(),
            provided: images::provided(sandbox, &image),
            image: image.image,
            image_source: image.source,
        }
    }

    /// Returns what the lock says of it; `new` is the tag under which this build makes classes.
    pub(super) fn locked(&self, lifecycles: &[Lifecycle], new: Option<&str>) -> Locked {
        let sandbox = self.sandbox();
        let top = self.entries.get(&None).cloned();
        let top = top.unwrap_or(lock::Entry { container: String::new(), keys: Vec::new() });
        let class = &sandbox.class.value;
        let made = lifecycles.first().and_then(|lifecycle| {
            let live = lifecycle.live.get(class).or_else(|| lifecycle.live.get(self.wanted.old?));
            live.map_or_else(|| new.map(str::to_owned), |live| live.tag.clone())
        });
        let environments = self.entries.iter();
        Locked {
            name: sandbox.names.base.clone(),
            file: sandbox.file.clone(),
            class: class.clone(),
            binding: sandbox.names.binding.clone(),
            migration: made,
            backend: sandbox.attributes.backend().word().to_owned(),
            container: top.container,
            keys: top.keys,
            environments: environments
                .filter_map(|(environment, entry)| Some((environment.clone()?, entry.clone())))
                .collect(),
        }
    }
}
