//! Detects histories that wrangler rejects. If there is a container, it replays the whole list, however long ago a
//! migration was deployed.

use std::collections::BTreeSet;

use koze_edit::Step;
use serde_json::Value;

use super::migrations::strings;
use super::{elements_at, text_at};

use crate::rules::Rule;

/// An operation in a list of migrations that wrangler rejects.
pub(super) struct Refused {
    tag: String,
    /// The path of the class, relative to the list.
    steps: Vec<Step>,
    /// The operation.
    what: String,
    /// Whether the class already exists; otherwise it does not exist.
    lives: bool,
}

impl Refused {
    /// Returns why the list cannot be read, and the path of the class relative to the list.
    pub(super) fn into_reason(self) -> (String, Vec<Step>) {
        (format!("wrangler rejects `{}`: {}", self.tag, self.what), self.steps)
    }

    /// Returns the rule, and the path of the class relative to the list.
    pub(super) fn rule(self) -> (Rule, Vec<Step>) {
        let remedy = if self.lives {
            format!("remove the class from `{}`", self.tag)
        } else {
            "create the class in an earlier migration with `new_sqlite_classes`, or remove the entry"
                .to_owned()
        };
        let remedy = format!(
            "{remedy}; deployed migrations are not applied again, so this does not change storage. If `koze.lock` has its `[[migration]]`, remove that as well"
        );
        (Rule::RefusedHistory { tag: self.tag, what: self.what, remedy }, self.steps)
    }
}

/// Returns the operations in a list that wrangler rejects. Within a tag it deletes, renames, then creates classes, and
/// it ignores `transferred_classes`.
pub(super) fn refused(list: &[&Value]) -> Vec<Refused> {
    let mut live: BTreeSet<&str> = BTreeSet::new();
    let mut transferred: BTreeSet<&str> = BTreeSet::new();
    let mut all = Vec::new();
    for (index, migration) in list.iter().enumerate() {
        let tag = text_at(migration, "tag").unwrap_or_default();
        let mut refuse = |key: &str, at: usize, what: String, lives: bool| {
            let steps = vec![Step::Index(index), Step::from(key), Step::Index(at)];
            all.push(Refused { tag: tag.to_owned(), steps, what, lives });
        };
        let unknown = |class: &str, transferred: &BTreeSet<&str>| {
            if transferred.contains(class) {
                "which only `transferred_classes` created, and wrangler ignores that"
            } else {
                "which does not exist at that point"
            }
        };
        for (at, class) in strings(migration, "deleted_classes").enumerate() {
            if !live.remove(class) {
                let why = unknown(class, &transferred);
                refuse("deleted_classes", at, format!("it deletes the class `{class}`, {why}"), false);
            }
            transferred.remove(class);
        }
        for (at, renamed) in elements_at(migration, "renamed_classes").enumerate() {
            let (Some(from), Some(to)) = (text_at(renamed, "from"), text_at(renamed, "to")) else { continue };
            if !live.remove(from) {
                let why = unknown(from, &transferred);
                refuse("renamed_classes", at, format!("it renames the class `{from}`, {why}"), false);
            }
            transferred.remove(from);
            live.insert(to);
        }
        for key in ["new_classes", "new_sqlite_classes"] {
            for (at, class) in strings(migration, key).enumerate() {
                if !live.insert(class) {
                    refuse(key, at, format!("it creates the class `{class}`, which already exists"), true);
                }
            }
        }
        transferred
            .extend(elements_at(migration, "transferred_classes").filter_map(|class| text_at(class, "to")));
    }
    all
}
