//! What the containers of the class `Sandbox` say that an attribute can say.

use std::path::Path;

use koze_model::{Report, attrs, image};
use proc_macro2::TokenStream;
use serde_json::Value;

use crate::images;
use crate::paths;
use crate::wrangler::blocks::former;
use crate::wrangler::legacy::Legacy;

/// The keys of the attribute, of a sandbox file in `source_dir`: what all containers, at all levels, say alike. What they do
/// not stays in the configuration.
pub(super) fn keys(legacy: &Legacy, config_dir: &Path, source_dir: &Path) -> Vec<String> {
    // The SDK's class has the internet on, and koze's has it off.
    let mut keys = vec!["internet = true".to_owned()];
    keys.extend(image_keys(legacy, config_dir, source_dir));
    keys.extend(size(legacy).filter(|key| is_valid(key)));
    if let Some(max) = shared(legacy, |container| container.get("max_instances")).and_then(Value::as_u64) {
        keys.push(format!("max_instances = {max}"));
    }
    keys
}

/// What all containers say alike.
fn shared<'v, T: PartialEq>(legacy: &Legacy<'v>, of: impl Fn(&'v Value) -> Option<T>) -> Option<T> {
    let first = of(legacy.containers[0])?;
    legacy.containers.iter().all(|container| of(container).as_ref() == Some(&first)).then_some(first)
}

/// The image, with the keys that say how it is built.
fn image_keys(legacy: &Legacy, config_dir: &Path, source_dir: &Path) -> Vec<String> {
    let Some(image) = shared(legacy, former::image) else { return Vec::new() };
    if image::is_default_repository(image) {
        return image::variant(image).map(|variant| format!("variant = {variant:?}")).into_iter().collect();
    }
    let Some(image) = images::in_attribute(image, config_dir, source_dir) else { return Vec::new() };
    let mut keys = vec![format!("image = {image:?}")];
    let context = shared(legacy, |container| container.get("image_build_context")).and_then(Value::as_str);
    keys.extend(context.map(|dir| {
        let dir = paths::relative(&config_dir.join(dir), source_dir);
        format!("image_build_context = {dir:?}")
    }));
    let vars = shared(legacy, |container| container.get("image_vars")).and_then(Value::as_object);
    let vars = vars.and_then(|vars| {
        let each = vars.iter().map(|(name, value)| Some(format!("{name} = {:?}", value.as_str()?)));
        each.collect::<Option<Vec<String>>>()
    });
    keys.extend(vars.map(|vars| format!("image_vars({})", vars.join(", "))));
    // Together or not at all: an image that is built otherwise is another one.
    if is_valid(&keys.join(", ")) { keys } else { Vec::new() }
}

/// How large the instances are: a type of wrangler's, or limits.
fn size(legacy: &Legacy) -> Option<String> {
    let of = |container| former::limits(container).or_else(|| container.get("instance_type").cloned());
    match shared(legacy, of)? {
        Value::String(kind) => Some(format!("instance_type = {kind:?}")),
        Value::Object(limits) => {
            let each: Vec<String> = limits.iter().map(|(key, value)| format!("{key} = {value}")).collect();
            Some(format!("instance({})", each.join(", ")))
        }
        _ => None,
    }
}

/// Whether an attribute takes these keys.
fn is_valid(keys: &str) -> bool {
    let mut report = Report::new();
    let parsed = keys.parse::<TokenStream>().map(|tokens| attrs::parse(&tokens, &mut report));
    parsed.is_ok() && !report.has_errors()
}
