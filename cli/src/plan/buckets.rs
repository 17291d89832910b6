//! Plans the R2 buckets of snapshots. koze adds an entry where the binding is missing, and never removes or changes one,
//! because a bucket holds the user's data.

use koze_edit::{Edit, Step};
use serde_json::{Value, json};

use super::Inputs;
use crate::finding::Findings;
use crate::rules::Rule;
use crate::wrangler::level::Level;

const KEY: &str = "r2_buckets";

/// Returns the edits of the buckets at one level.
pub(super) fn edits(
    inputs: &Inputs,
    level: &Level,
    notes: &mut Vec<String>,
    findings: &mut Findings,
) -> Vec<Edit> {
    let workspaces = inputs.sandboxes.list.iter().filter_map(|sandbox| sandbox.attributes.workspace.as_ref());
    let buckets = workspaces.filter_map(|workspace| workspace.value.snapshot.as_ref()?.bucket.as_deref());
    let mut wanted: Vec<&str> = buckets.collect();
    wanted.sort_unstable();
    wanted.dedup();
    let mut edits = Vec::new();
    for binding in wanted {
        let named = |entry: &&Value| entry.get("binding").and_then(Value::as_str) == Some(binding);
        if level.scope.list(&[KEY]).iter().any(|entry| named(&entry)) {
            continue;
        }
        let index = level.bindings.named(binding).first();
        let object = index.map(|index| {
            let keys = ["durable_objects", "bindings"].map(Step::from);
            [level.scope.path(&keys), vec![Step::from(*index)]].concat()
        });
        if let Some(path) = level.others.get(binding).cloned().or(object) {
            let message = format!("`{binding}` is the bucket of snapshots, but it is another binding here");
            let remedy =
                "names must be unique in `env`: rename this one, or `snapshot(bucket = ..)`".to_owned();
            findings.add(Rule::Contradiction { message, remedy }, Some(inputs.config.place(&path)));
            continue;
        }
        if level.scope.environment.is_none() {
            notes.push(format!(
                "added the R2 bucket `{binding}` for snapshots: set `bucket_name` to use one of your account"
            ));
        }
        let path = level.scope.path(&[Step::from(KEY)]);
        edits.push(Edit::Push { path, value: json!({ "binding": binding }) });
    }
    edits
}
