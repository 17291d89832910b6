//! A sandbox during planning, and its result in the plan.

use std::collections::{BTreeMap, HashSet};

use koze_core::provider::{Credential, Profile};
use koze_model::image::{self, ImageSource};
use koze_model::{Backend, Kind, Sandbox};
use serde_json::{Map, Value};

use crate::images::{self, Recipe, Resolved};
use crate::lock::{self, Locked};
use crate::wrangler::blocks::Wanted;
use crate::wrangler::lifecycle::Lifecycle;

/// A sandbox or container in the finished plan.
#[derive(Debug, Clone)]
pub struct Planned {
    /// Whether it is a sandbox or a container.
    pub kind: Kind,
    /// The port of its service, if it is a container.
    pub port: Option<u16>,
    /// Its file, relative to the package.
    pub file: String,
    /// Its binding.
    pub binding: String,
    /// Its class.
    pub class: String,
    /// Its container application at the top level, by wrangler's name.
    pub container: String,
    /// Its image at the top level.
    pub image: String,
    /// All its images at the top level, as pairs of name and image; the first one is [`Planned::image`].
    pub images: Vec<(String, String)>,
    /// Where the image was configured.
    pub image_source: ImageSource,
    /// The backend.
    pub backend: Backend,
    /// Its image in each environment that koze manages.
    pub environments: Vec<(String, String)>,
    /// Its images in the form that sandbox providers take, the default one first.
    pub provided: Vec<Profile>,
    /// How its images from Dockerfiles are built.
    pub recipes: Vec<Recipe>,
}

impl Planned {
    /// Returns the credentials of its requests, which are the same for all its images.
    pub fn credentials(&self) -> &[Credential] {
        self.provided.first().map_or(&[], |profile| &profile.credentials)
    }

    /// Returns whether koze's guest is in its image.
    pub fn has_guest(&self) -> bool {
        self.kind == Kind::Sandbox && self.backend.has_own_guest()
    }

    /// Returns whether wrangler builds the image.
    pub fn is_built(&self) -> bool {
        match self.backend {
            Backend::Native if self.kind == Kind::Sandbox => true,
            Backend::Sdk | Backend::Native => self.dockerfile().is_some(),
            Backend::Managed => self.images.iter().any(|(_, image)| image != image::PLATFORM_IMAGE),
        }
    }

    /// Returns the Dockerfile that the image is built from, relative to the wrangler configuration.
    pub fn dockerfile(&self) -> Option<&str> {
        let image = self.image.as_str();
        (image.starts_with("./") || image.starts_with("../")).then_some(image)
    }
}

/// A sandbox whose entries are being planned, level by level.
pub(super) struct Planning<'a> {
    pub(super) wanted: Wanted<'a>,
    /// The parts of its container entries that koze owns, by environment.
    pub(super) entries: BTreeMap<Option<String>, lock::Entry>,
    /// The image of the top level's entry and its related keys, if the user owns them.
    pub(super) kept: Option<Map<String, Value>>,
    /// The images that the user owns, by environment.
    pub(super) kept_images: BTreeMap<Option<String>, String>,
}

impl<'a> Planning<'a> {
    /// Starts with the entries in the lock of environments that koze does not manage: they stay recorded.
    pub(super) fn new(wanted: Wanted<'a>, managed: &HashSet<&str>) -> Self {
        let environments = wanted.locked.into_iter().flat_map(|locked| &locked.environments);
        let entries = environments
            .filter(|(environment, _)| !managed.contains(environment.as_str()))
            .map(|(environment, entry)| (Some(environment.clone()), entry.clone()))
            .collect();
        Planning { wanted, entries, kept: None, kept_images: BTreeMap::new() }
    }

    pub(super) fn sandbox(&self) -> &'a Sandbox {
        self.wanted.sandbox
    }

    /// Returns its images at the top level, the default one first: the user's, if the user owns it.
    pub(super) fn images(&self) -> Vec<Resolved> {
        match self.kept_images.get(&None) {
            Some(kept) => {
                let name = &self.sandbox().names.base;
                vec![Resolved::new(name, kept.clone(), ImageSource::Configuration)]
            }
            None => self.wanted.images.clone(),
        }
    }

    /// Returns its image in an environment.
    fn image_in(&self, environment: &str) -> String {
        let kept = self.kept_images.get(&Some(environment.to_owned()));
        kept.unwrap_or(&self.wanted.image().image).clone()
    }

    /// Returns its result in the plan. `container` names the application if the lock does not; `environments` are those
    /// that koze manages.
    pub(super) fn planned<'e>(
        &self,
        locked: &Locked,
        container: impl Fn(&str) -> Option<String>,
        environments: impl Iterator<Item = &'e String>,
    ) -> Planned {
        let sandbox = self.sandbox();
        let images = self.images();
        let image = &images[0];
        let made = || container(&locked.class).unwrap_or_default();
        Planned {
            kind: sandbox.kind(),
            port: sandbox.attributes.port.as_ref().map(|port| port.value),
            file: sandbox.file.clone(),
            binding: sandbox.names.binding.clone(),
            class: sandbox.class.value.clone(),
            container: if locked.container.is_empty() { made() } else { locked.container.clone() },
            environments: environments.map(|name| (name.clone(), self.image_in(name))).collect(),
            backend: sandbox.attributes.backend(),
            provided: images.iter().map(|image| images::provided(sandbox, image)).collect(),
            images: images.iter().map(|image| (image.name.clone(), image.image.clone())).collect(),
            recipes: images.iter().filter_map(|image| image.recipe.clone()).collect(),
            image: image.image.clone(),
            image_source: image.source,
        }
    }

    /// Returns its new lock entry, which takes the container entries; `new` is the tag under which this build creates
    /// classes.
    pub(super) fn locked(&mut self, lifecycles: &[Lifecycle], new: Option<&str>) -> Locked {
        let sandbox = self.sandbox();
        let mut entries = std::mem::take(&mut self.entries);
        let top = entries.remove(&None);
        let top = top.unwrap_or(lock::Entry { container: String::new(), keys: Vec::new() });
        let class = &sandbox.class.value;
        let made = lifecycles.first().and_then(|lifecycle| {
            let live = lifecycle.live.get(class).or_else(|| lifecycle.live.get(self.wanted.old?));
            live.map_or_else(|| new.map(str::to_owned), |live| live.tag.clone())
        });
        Locked {
            name: sandbox.names.base.clone(),
            file: sandbox.file.clone(),
            class: class.clone(),
            binding: sandbox.names.binding.clone(),
            migration: made,
            backend: sandbox.attributes.backend().word().to_owned(),
            container: top.container,
            keys: top.keys,
            former_containers: self.wanted.former_containers(),
            environments: entries
                .into_iter()
                .filter_map(|(environment, entry)| Some((environment?, entry)))
                .collect(),
        }
    }
}
