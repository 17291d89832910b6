//! A map of exports, and the tombstones in it.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::{Changes, Live};
use crate::wrangler::document::{Edit, Step};

/// Whether an entry is a Durable Object.
pub(super) fn is_object(entry: &Value) -> bool {
    entry.get("type").and_then(Value::as_str) == Some("durable-object")
}

/// The classes that live by a map, which stands at `path`.
pub(super) fn live(path: &[Step], exports: &Map<String, Value>) -> BTreeMap<String, Live> {
    exports
        .iter()
        .filter(|(_, entry)| is_object(entry))
        .filter(|(_, entry)| {
            matches!(
                entry.get("state").and_then(Value::as_str),
                None | Some("created" | "expecting-transfer")
            )
        })
        .map(|(class, entry)| {
            let path = [path, &[Step::from(class.as_str())]].concat();
            let sqlite = entry.get("storage").and_then(Value::as_str) == Some("sqlite");
            (class.clone(), Live { sqlite, tag: None, path, former: former(class, exports) })
        })
        .collect()
}

/// The names that tombstones say a class had before, each followed once.
fn former(class: &str, exports: &Map<String, Value>) -> Vec<String> {
    let mut names = vec![class];
    let mut next = 0;
    while let Some(name) = names.get(next).copied() {
        next += 1;
        for (old, entry) in exports {
            let renamed = entry.get("state").and_then(Value::as_str) == Some("renamed");
            let to = entry.get("renamed_to").and_then(Value::as_str);
            if renamed && to == Some(name) && !names.contains(&old.as_str()) {
                names.push(old);
            }
        }
    }
    names.into_iter().skip(1).rev().map(str::to_owned).collect()
}

/// The edits that bring the changes about.
pub(super) fn edits(path: &[Step], changes: &Changes) -> Vec<Edit> {
    let mut edits = Vec::new();
    let mut set = |class: &str, value: Value| {
        let path = [path, &[Step::from(class)]].concat();
        edits.push(Edit::Set { path, value });
    };
    for class in &changes.deleted {
        set(class, json!({ "type": "durable-object", "state": "deleted" }));
    }
    for (old, new) in &changes.renamed {
        set(old, json!({ "type": "durable-object", "state": "renamed", "renamed_to": new }));
    }
    let renamed = changes.renamed.iter().map(|(_, new)| new);
    for class in renamed.chain(&changes.new) {
        set(class, json!({ "type": "durable-object", "storage": "sqlite" }));
    }
    edits
}
