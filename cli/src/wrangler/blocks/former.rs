//! `containers[].configuration`: the former place of a container's image and limits.
//!
//! wrangler still reads it, rejects `instance_type` together with its limits, and prefers `image` to its image. koze
//! treats its values as if they were in the entry, and writes neither key next to it.

use koze_edit::Step;
use serde_json::{Map, Value, json};

/// The lock's name for the image in `configuration`, if koze owns it.
const IMAGE: &str = "configuration.image";

/// The `configuration` of an entry.
pub(super) struct Former<'a> {
    entry: &'a Value,
    own: Option<&'a Map<String, Value>>,
}

/// The location of a key in an entry, and its value.
pub(super) struct Slot<'a> {
    /// Its name in the lock.
    pub(super) name: &'a str,
    /// Its value.
    pub(super) present: Option<&'a Value>,
}

impl Slot<'_> {
    /// Returns its path from the entry.
    pub(super) fn steps(&self) -> Vec<Step> {
        match self.name {
            IMAGE => vec![Step::from("configuration"), Step::from("image")],
            key => vec![Step::from(key)],
        }
    }
}

impl<'a> Former<'a> {
    pub(super) fn of(entry: &'a Value) -> Self {
        Former { entry, own: entry.get("configuration").and_then(Value::as_object) }
    }

    /// Returns the location of a key; `ours` says whether koze wrote the entry's own key.
    pub(super) fn slot<'s>(&self, key: &'s str, ours: bool) -> Slot<'s>
    where
        'a: 's,
    {
        let there = self.entry.get(key);
        match self.own.and_then(|own| own.get("image")) {
            Some(image) if key == "image" && (ours || there.is_none()) => {
                Slot { name: IMAGE, present: Some(image) }
            }
            _ => Slot { name: key, present: there },
        }
    }

    /// Returns its limits in the form of `instance_type`, if it has any.
    pub(super) fn limits(&self) -> Option<Value> {
        limits(self.entry)
    }
}

/// Returns the image of an entry, in either place.
pub(crate) fn image(entry: &Value) -> Option<&str> {
    entry.get("image").or_else(|| entry.get("configuration")?.get("image"))?.as_str()
}

/// Returns the limits in `configuration` in the form of `instance_type`.
pub(crate) fn limits(entry: &Value) -> Option<Value> {
    let own = entry.get("configuration")?.as_object()?;
    let mut limits = Map::new();
    for (key, name) in [("vcpu", "vcpu"), ("memory_mib", "memory_mib"), ("disk", "disk_mb")] {
        match own.get(key) {
            None => {}
            Some(disk) if key == "disk" => {
                limits.insert(name.to_owned(), disk.get("size_mb").cloned().unwrap_or(json!(null)));
            }
            Some(value) => {
                limits.insert(name.to_owned(), value.clone());
            }
        }
    }
    (!limits.is_empty()).then_some(Value::Object(limits))
}
