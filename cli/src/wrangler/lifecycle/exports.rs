//! A map of exports, and the tombstones in it.

use std::collections::BTreeMap;

use koze_edit::{Edit, Step};
use serde_json::{Map, Value, json};

use super::{Changes, Live, formers, text};

/// The types of entries that wrangler takes, in words.
pub(super) const TYPES: &str = "`durable-object`, `worker` or `workflow`";

/// Whether an entry is of such a type.
pub(super) fn is_known(entry: &Value) -> bool {
    matches!(text(entry, "type"), Some("durable-object" | "worker" | "workflow"))
}

/// Whether an entry is a Durable Object.
pub(super) fn is_object(entry: &Value) -> bool {
    entry.get("type").and_then(Value::as_str) == Some("durable-object")
}

/// The classes that live by a map, which stands at `path`.
pub(super) fn live(path: &[Step], exports: &Map<String, Value>) -> BTreeMap<String, Live> {
    let renames = renames(exports);
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
            let former = formers(class, &renames).into_iter().rev().map(str::to_owned).collect();
            let sqlite = entry.get("storage").and_then(Value::as_str) == Some("sqlite");
            (class.clone(), Live { sqlite, tag: None, path, former })
        })
        .collect()
}

/// The renames that the tombstones tell: old, new.
fn renames(exports: &Map<String, Value>) -> Vec<(String, String)> {
    let renamed = |(old, entry): (&String, &Value)| {
        (text(entry, "state")? == "renamed").then_some((old.clone(), text(entry, "renamed_to")?.to_owned()))
    };
    exports.iter().filter_map(renamed).collect()
}

/// The edits that bring the changes about in a map, which stands at `path`.
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
    // Cloudflare takes a rename only where its new name lives: those of earlier builds follow. An environment that has
    // missed them all finds its storage all the same.
    for (old, to) in renames(exports) {
        if let Some((_, new)) = changes.renamed.iter().find(|(from, _)| *from == to) {
            set(&old, json!({ "type": "durable-object", "state": "renamed", "renamed_to": new }));
        } else if changes.deleted.contains(&to) {
            set(&old, json!({ "type": "durable-object", "state": "deleted" }));
        }
    }
    let renamed = changes.renamed.iter().map(|(_, new)| new);
    for class in renamed.chain(&changes.new) {
        set(class, json!({ "type": "durable-object", "storage": "sqlite" }));
    }
    edits
}
