//! `containers[].configuration`: where a container's image and limits stood before they had keys of their own.
//!
//! wrangler still reads it, refuses `instance_type` beside its limits, and prefers `image` to its image. So what stands
//! there counts as if it stood in the entry, and koze writes neither key beside it.

use koze_edit::Step;
use serde_json::{Map, Value, json};

/// How the lock names the image in it, where koze decides that.
const IMAGE: &str = "configuration.image";

/// `configuration` of an entry.
pub(super) struct Former<'a> {
    entry: &'a Value,
    own: Option<&'a Map<String, Value>>,
}

/// The place of a key in an entry, and its value.
pub(super) struct Slot<'a> {
    /// What the lock calls it.
    pub(super) name: String,
    /// The way to it from the entry.
    pub(super) steps: Vec<Step>,
    /// Its value.
    pub(super) present: Option<&'a Value>,
}

impl<'a> Former<'a> {
    pub(super) fn of(entry: &'a Value) -> Self {
        Former { entry, own: entry.get("configuration").and_then(Value::as_object) }
    }

    /// Where a key stands; `ours` says whether koze wrote the entry's own.
    pub(super) fn slot(&self, key: &str, ours: bool) -> Slot<'a> {
        let there = self.entry.get(key);
        match self.own.and_then(|own| own.get("image")) {
            Some(image) if key == "image" && (ours || there.is_none()) => Slot {
                name: IMAGE.to_owned(),
                steps: vec![Step::from("configuration"), Step::from("image")],
                present: Some(image),
            },
            _ => Slot { name: key.to_owned(), steps: vec![Step::from(key)], present: there },
        }
    }

    /// The limits in it, as `instance_type` says them; none where it has none.
    pub(super) fn limits(&self) -> Option<Value> {
        limits(self.entry)
    }
}

/// The image of an entry, wherever it stands.
pub(crate) fn image(entry: &Value) -> Option<&str> {
    entry.get("image").or_else(|| entry.get("configuration")?.get("image"))?.as_str()
}

/// The limits in `configuration`, as `instance_type` says them.
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
