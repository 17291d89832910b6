//! Builds the container entry that an attribute describes.

use std::path::Path;

use koze_model::attrs::Rollout;
use koze_model::image::PLATFORM_IMAGE;
use serde_json::{Map, Value, json};

use super::Wanted;
use super::policy::DURABLE_OBJECT;
use crate::images::Resolved;
use crate::paths;
use crate::wrangler::scope::Scope;

impl Wanted<'_> {
    /// Returns the container entry, with its keys in order.
    pub(super) fn container(&self, scope: &Scope, config_dir: &Path) -> Map<String, Value> {
        if self.is_managed() { self.managed(scope, config_dir) } else { self.scheduled(scope, config_dir) }
    }

    /// Returns the entry of a container that its Durable Object starts. Image and size are not in it, because the class
    /// passes them at each start.
    fn managed(&self, scope: &Scope, config_dir: &Path) -> Map<String, Value> {
        let attributes = &self.sandbox.attributes;
        let mut entry = Map::new();
        entry.insert("name".to_owned(), json!(self.application_name(scope)));
        entry.insert("class_name".to_owned(), json!(self.sandbox.class.value));
        entry.insert("scheduling_policy".to_owned(), json!(DURABLE_OBJECT));
        let images: Map<String, Value> =
            self.images.iter().filter_map(|image| self.named_image(image, config_dir)).collect();
        if !images.is_empty() {
            entry.insert("images".to_owned(), Value::Object(images));
        }
        if let Some(observability) = self.observability() {
            entry.insert("observability".to_owned(), observability);
        }
        if let Some(ssh) = &attributes.ssh {
            entry.insert("ssh".to_owned(), json!({ "enabled": ssh.value }));
        }
        entry
    }

    /// Returns the entry of an image that wrangler builds. The platform's own image has none.
    fn named_image(&self, image: &Resolved, config_dir: &Path) -> Option<(String, Value)> {
        if image.image == PLATFORM_IMAGE {
            return None;
        }
        let mut built = Map::new();
        built.insert("dockerfile".to_owned(), json!(image.entry(config_dir)));
        let attributes = &self.sandbox.attributes;
        let context = match &image.guest {
            Some(guest) => guest.context.clone(),
            // wrangler's default is the directory of the Dockerfile.
            None => attributes.image_build_context.as_ref().map(|path| self.source_dir.join(&path.value)),
        };
        let is_dockerfile = image.guest.as_ref().is_none_or(|guest| guest.context.is_some());
        if let Some(context) = &context {
            built.insert("build_context".to_owned(), json!(paths::dotted(context, config_dir)));
        }
        if let Some(vars) = attributes.image_vars.as_ref().filter(|_| is_dockerfile) {
            let vars = vars.value.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
            built.insert("build_vars".to_owned(), vars);
        }
        Some((image.name.clone(), Value::Object(built)))
    }

    /// Returns the entry of a container that Cloudflare schedules.
    fn scheduled(&self, scope: &Scope, config_dir: &Path) -> Map<String, Value> {
        let attributes = &self.sandbox.attributes;
        let mut entry = Map::new();
        let mut set = |key: &str, value: Value| entry.insert(key.to_owned(), value);
        set("name", json!(self.application_name(scope)));
        set("class_name", json!(self.sandbox.class.value));
        set("image", json!(self.image().entry(config_dir)));
        let declared = attributes.image_build_context.as_ref().map(|path| self.source_dir.join(&path.value));
        // The generated Dockerfile is elsewhere, so the build context has to be explicit.
        let own = self.image().guest.as_ref().and_then(|guest| guest.context.clone());
        if let Some(path) = declared.or(own) {
            set("image_build_context", json!(paths::dotted(&path, config_dir)));
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
        if let Some(observability) = self.observability() {
            set("observability", observability);
        }
        entry
    }

    fn observability(&self) -> Option<Value> {
        let observability = self.sandbox.attributes.observability.as_ref()?;
        let mut value = json!({});
        if let Some(enabled) = observability.value.enabled {
            value["enabled"] = json!(enabled);
        }
        if let Some(enabled) = observability.value.logs_enabled {
            value["logs"] = json!({ "enabled": enabled });
        }
        Some(value)
    }

    fn instance_type(&self) -> Value {
        let attributes = &self.sandbox.attributes;
        if let Some(instance) = &attributes.instance {
            let mut value = json!({});
            if let Some(vcpu) = instance.value.vcpu {
                value["vcpu"] = to_number(vcpu);
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
}

/// Formats a number as a person would: `1`, not `1.0`.
fn to_number(value: f64) -> Value {
    #[allow(clippy::cast_possible_truncation, reason = "the value is whole and small")]
    if value.fract() == 0.0 && value.abs() < 1e9 { json!(value as i64) } else { json!(value) }
}
