//! Removes the blocks that koze created together with their last entry.

use koze_edit::{Edit, Path, Step};
use serde_json::Value;

use crate::wrangler::locate::Config;
use crate::wrangler::scope::{Scope, dotted};

/// The lists that koze writes to, each with its parent objects.
const LISTS: [&[&str]; 3] = [&["containers"], &["durable_objects", "bindings"], &["migrations"]];

/// Replaces edits that would leave one of koze's blocks empty by its removal, and updates `made`.
///
/// `made` lists the blocks of all levels that koze created.
pub(super) fn tidy(
    scope: &Scope,
    config: &Config,
    mut edits: Vec<Edit>,
    made: &mut Vec<String>,
) -> Vec<Edit> {
    for keys in LISTS {
        let list = path_at(scope, keys);
        let pushes = edits.iter().any(|edit| matches!(edit, Edit::Push { path, .. } if *path == list));
        let removes = |edit: &Edit| matches!(edit, Edit::Remove { path } if path.len() == list.len() + 1 && path.starts_with(&list));
        let count = edits.iter().filter(|edit| removes(edit)).count();
        if pushes {
            // Missing parent objects are created with the list.
            let missing =
                (1..=keys.len()).map(|length| &keys[..length]).filter(|keys| value_at(scope, keys).is_none());
            for block in missing.map(|keys| dotted(&path_at(scope, keys))) {
                if !made.contains(&block) {
                    made.push(block);
                }
            }
        } else if count > 0 && count == scope.list(keys).len() {
            let goes = (1..=keys.len()).map(|length| &keys[..length]).find(|keys| {
                let alone =
                    value_at(scope, keys).and_then(Value::as_object).is_none_or(|object| object.len() == 1);
                alone
                    && made.contains(&dotted(&path_at(scope, keys)))
                    && !has_comment(config, &path_at(scope, keys), &list)
            });
            if let Some(goes) = goes {
                edits.retain(|edit| !removes(edit));
                let path = path_at(scope, goes);
                let name = dotted(&path);
                made.retain(|block| *block != name && !block.starts_with(&format!("{name}.")));
                edits.push(Edit::Remove { path });
            }
        }
    }
    edits
}

/// Returns whether the user has added a comment to a block outside the entries of its list. Such a block is kept.
fn has_comment(config: &Config, block: &[Step], list: &[Step]) -> bool {
    let document = &config.document;
    let Some(range) = document.range(block) else { return false };
    let entries = (0..).map_while(|index| document.range(&[list, &[Step::from(index)]].concat()));
    let mut between = String::new();
    let mut start = range.start;
    for entry in entries.filter(|entry| range.start <= entry.start && entry.end <= range.end) {
        between.push_str(document.text().get(start..entry.start).unwrap_or_default());
        start = entry.end;
    }
    between.push_str(document.text().get(start..range.end).unwrap_or_default());
    ["//", "/*", "#"].iter().any(|sign| between.contains(sign))
}

fn path_at(scope: &Scope, keys: &[&str]) -> Path {
    scope.path(&keys.iter().map(|key| Step::from(*key)).collect::<Vec<_>>())
}

fn value_at<'a>(scope: &Scope<'a>, keys: &[&str]) -> Option<&'a Value> {
    keys.iter().try_fold(scope.value, |value, key| value.get(key))
}
