//! The settings of the containers of the class `Sandbox` that an attribute can express.

use std::path::Path;

use koze_model::{Kind, Report, attrs, image};
use proc_macro2::TokenStream;
use serde_json::Value;

use crate::images;
use crate::paths;
use crate::wrangler::blocks::former;
use crate::wrangler::legacy::Legacy;

/// Returns the attribute's keys for a sandbox file in `source_dir`: the settings that all containers share, at all
/// levels. Other settings stay in the configuration.
pub(super) fn keys(legacy: &Legacy, config_dir: &Path, source_dir: &Path) -> Vec<String> {
    // The SDK's class enables internet access by default; koze's class disables it.
    let mut keys = vec!["internet = true".to_owned()];
    keys.extend(image_keys(legacy, config_dir, source_dir));
    keys.extend(size_key(legacy).filter(|key| is_valid(key)));
    if let Some(max) =
        shared_value(legacy, |container| container.get("max_instances")).and_then(Value::as_u64)
    {
        keys.push(format!("max_instances = {max}"));
    }
    keys
}

/// Returns a value if all containers have it.
fn shared_value<'v, T: PartialEq>(legacy: &Legacy<'v>, of: impl Fn(&'v Value) -> Option<T>) -> Option<T> {
    let first = of(legacy.containers[0])?;
    legacy.containers.iter().all(|container| of(container).as_ref() == Some(&first)).then_some(first)
}

/// Returns the keys for the image and its build.
fn image_keys(legacy: &Legacy, config_dir: &Path, source_dir: &Path) -> Vec<String> {
    let Some(image) = shared_value(legacy, former::image) else { return Vec::new() };
    if image::is_default_repository(image) {
        return image::variant(image).map(|variant| format!("variant = {variant:?}")).into_iter().collect();
    }
    let Some(image) = images::in_attribute(image, config_dir, source_dir) else { return Vec::new() };
    let mut keys = vec![format!("image = {image:?}")];
    let context =
        shared_value(legacy, |container| container.get("image_build_context")).and_then(Value::as_str);
    keys.extend(context.map(|dir| {
        let dir = paths::relative(&config_dir.join(dir), source_dir);
        format!("image_build_context = {dir:?}")
    }));
    let vars = shared_value(legacy, |container| container.get("image_vars")).and_then(Value::as_object);
    let vars = vars.and_then(|vars| {
        let each = vars.iter().map(|(name, value)| Some(format!("{name} = {:?}", value.as_str()?)));
        each.collect::<Option<Vec<String>>>()
    });
    keys.extend(vars.map(|vars| format!("image_vars({})", vars.join(", "))));
    // All or none: with only some of the keys, the build would produce a different image.
    if is_valid(&keys.join(", ")) { keys } else { Vec::new() }
}

/// Returns the key for the instance size: one of wrangler's types, or limits.
fn size_key(legacy: &Legacy) -> Option<String> {
    let of = |container| former::limits(container).or_else(|| container.get("instance_type").cloned());
    match shared_value(legacy, of)? {
        Value::String(kind) => Some(format!("instance_type = {kind:?}")),
        Value::Object(limits) => {
            let each: Vec<String> = limits.iter().map(|(key, value)| format!("{key} = {value}")).collect();
            Some(format!("instance({})", each.join(", ")))
        }
        _ => None,
    }
}

/// Returns whether an attribute accepts these keys.
fn is_valid(keys: &str) -> bool {
    let mut report = Report::new();
    let parsed = keys.parse::<TokenStream>().map(|tokens| attrs::parse(&tokens, Kind::Sandbox, &mut report));
    parsed.is_ok() && !report.has_errors()
}
