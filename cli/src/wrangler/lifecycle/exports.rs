//! Reads and edits a map of `exports` and its tombstones.

use std::collections::BTreeMap;

use koze_edit::{Edit, Step};
use serde_json::{Map, Value, json};

use super::{Changes, Live, previous_names, text_at};

/// Lists the entry types that wrangler accepts, for messages.
pub(super) const TYPES: &str = "`durable-object`, `worker` or `workflow`";

/// Returns whether an entry has such a type.
pub(super) fn is_known(entry: &Value) -> bool {
    matches!(text_at(entry, "type"), Some("durable-object" | "worker" | "workflow"))
}

/// Returns whether an entry is a Durable Object.
pub(super) fn is_object(entry: &Value) -> bool {
    entry.get("type").and_then(Value::as_str) == Some("durable-object")
}

/// Returns the classes that a map at `path` declares.
pub(super) fn live(path: &[Step], exports: &Map<String, Value>) -> BTreeMap<String, Live> {
    let renames = find_renames(exports);
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
            let former = previous_names(class, &renames).into_iter().rev().map(str::to_owned).collect();
            let sqlite = entry.get("storage").and_then(Value::as_str) == Some("sqlite");
            (class.clone(), Live { sqlite, tag: None, path, former })
        })
        .collect()
}

/// Returns the renames in the tombstones, as pairs of old and new name.
pub(super) fn find_renames(exports: &Map<String, Value>) -> Vec<(String, String)> {
    let renamed = |(old, entry): (&String, &Value)| {
        (text_at(entry, "state")? == "renamed")
            .then_some((old.clone(), text_at(entry, "renamed_to")?.to_owned()))
    };
    exports.iter().filter_map(renamed).collect()
}

/// Returns the edits that apply the changes to a map at `path`.
pub(super) fn edits(path: &[Step], exports: &Map<String, Value>, changes: &Changes) -> Vec<Edit> {
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
    // Cloudflare accepts a rename only if its target exists, so the tombstones of earlier builds are updated. An
    // environment that missed all of them still finds its storage.
    for (old, to) in find_renames(exports) {
        if let Some((_, new)) = changes.renamed.iter().find(|(from, _)| *from == to) {
            set(&old, json!({ "type": "durable-object", "state": "renamed", "renamed_to": new }));
        } else if changes.deleted.contains(&to) {
            set(&old, json!({ "type": "durable-object", "state": "deleted" }));
        }
    }
    for (old, new) in &changes.renamed {
        let mut live = json!({ "type": "durable-object", "storage": "sqlite" });
        let link = match changes.links.get(old) {
            Some(link) => link.as_deref(),
            None => exports.get(old).and_then(|entry| text_at(entry, "container")),
        };
        if let Some(link) = link {
            live["container"] = json!(link);
        }
        set(new, live);
    }
    for class in &changes.new {
        set(class, json!({ "type": "durable-object", "storage": "sqlite" }));
    }
    let is_replaced = |class: &String| {
        changes.deleted.contains(class) || changes.renamed.iter().any(|(old, _)| old == class)
    };
    for (class, link) in changes.links.iter().filter(|(class, _)| !is_replaced(class)) {
        let path = [path, &[Step::from(class.as_str()), Step::from("container")]].concat();
        edits.push(match link {
            Some(name) => Edit::Set { path, value: json!(name) },
            None => Edit::Remove { path },
        });
    }
    edits
}
