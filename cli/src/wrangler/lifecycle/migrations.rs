//! Replays a list of migrations as wrangler does, and appends to it.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use koze_edit::Step;
use serde_json::{Value, json};

use super::{Changes, Live, elements_at, text_at};
use crate::finding::{Finding, Findings};
use crate::rules::Rule;
use crate::wrangler::locate::Config;
use crate::wrangler::scope::dotted;

/// Returns the classes that exist after a list at `path`; `locked` says whether `koze.lock` records one of its tags.
/// Within a tag, wrangler deletes, renames, then creates.
pub(super) fn replay(
    path: &[Step],
    list: &[Value],
    locked: &dyn Fn(&str) -> bool,
    config: &Config,
    findings: &mut Findings,
) -> BTreeMap<String, Live> {
    let mut live: BTreeMap<String, Live> = BTreeMap::new();
    let mut tags: HashMap<&str, usize> = HashMap::new();
    for (index, migration) in list.iter().enumerate() {
        let at = [path, &[Step::Index(index)]].concat();
        let Some(tag) = migration.get("tag").and_then(Value::as_str) else {
            let rule = Rule::ConfigShape { path: format!("{}.tag", dotted(&at)), expected: "a string" };
            findings.add(rule, Some(config.place(&at)));
            continue;
        };
        if let Some(first) = tags.insert(tag, index) {
            let other = [path, &[Step::Index(first)]].concat();
            findings.push(Finding {
                rule: Rule::BadMigrations {
                    message: format!("two migrations have the tag `{tag}`"),
                    remedy: duplicate_tag_remedy(tag, locked(tag)),
                },
                place: Some(config.place(&at)),
                also: vec![(config.place(&other), "the first one".to_owned())],
            });
        }
        check_shape(migration, &at, config, findings);
        for class in strings(migration, "deleted_classes") {
            live.remove(class);
        }
        for renamed in elements_at(migration, "renamed_classes") {
            if let (Some(from), Some(to)) = (text_at(renamed, "from"), text_at(renamed, "to"))
                && let Some(mut was) = live.remove(from)
            {
                was.former.push(from.to_owned());
                live.insert(to.to_owned(), was);
            }
        }
        let mut make = |class: &str, sqlite: bool| {
            let made = Live { sqlite, tag: Some(tag.to_owned()), path: at.clone(), former: Vec::new() };
            live.insert(class.to_owned(), made);
        };
        for class in strings(migration, "new_classes") {
            make(class, false);
        }
        for class in strings(migration, "new_sqlite_classes") {
            make(class, true);
        }
        // Classes transferred from another Worker keep their storage, about which nothing is known here.
        for transferred in elements_at(migration, "transferred_classes") {
            if let Some(to) = text_at(transferred, "to") {
                make(to, true);
            }
        }
    }
    live
}

/// Returns the remedy for two migrations with the same tag.
fn duplicate_tag_remedy(tag: &str, locked: bool) -> String {
    let lock = format!(", and remove the `[[migration]]` of `{tag}` from `koze.lock`");
    format!(
        "wrangler finds the deployed migration by its tag and takes the first of the two, so it sends the second one again with each deployment, which Cloudflare rejects. Give the one that is not deployed yet a unique tag{}",
        if locked { lock.as_str() } else { "" }
    )
}

/// Returns every class that a list creates.
pub(super) fn named(list: &[Value]) -> BTreeSet<&str> {
    let of = |migration| {
        let made =
            ["new_classes", "new_sqlite_classes"].into_iter().flat_map(move |key| strings(migration, key));
        let moved = ["renamed_classes", "transferred_classes"]
            .into_iter()
            .flat_map(move |key| elements_at(migration, key));
        made.chain(moved.filter_map(|moved| text_at(moved, "to")))
    };
    list.iter().flat_map(of).collect()
}

/// Returns a migration that applies the changes under a new tag.
pub(super) fn next(list: &[Value], changes: &Changes) -> (String, Value) {
    let tag = next_tag(list);
    let mut migration = json!({ "tag": tag });
    if !changes.deleted.is_empty() {
        migration["deleted_classes"] = json!(changes.deleted);
    }
    if !changes.renamed.is_empty() {
        let renamed = changes.renamed.iter().map(|(from, to)| json!({ "from": from, "to": to }));
        migration["renamed_classes"] = renamed.collect();
    }
    if !changes.new.is_empty() {
        migration["new_sqlite_classes"] = json!(changes.new);
    }
    (tag, migration)
}

/// Returns `v<n+1>`, where n is at least the highest number and the number of migrations.
fn next_tag(list: &[Value]) -> String {
    let number = |migration: &Value| text_at(migration, "tag")?.strip_prefix('v')?.parse::<u64>().ok();
    let highest =
        list.iter().filter_map(number).filter(|number| *number < u64::from(u32::MAX)).max().unwrap_or(0);
    let mut next = highest.max(list.len() as u64) + 1;
    while list.iter().any(|migration| text_at(migration, "tag") == Some(&format!("v{next}"))) {
        next += 1;
    }
    format!("v{next}")
}

/// The keys of a migration, the keys that their elements must have (none if they are strings), and the form that
/// wrangler expects.
const SHAPES: [(&str, &[&str], &str); 5] = [
    ("new_classes", &[], "an array of class names"),
    ("new_sqlite_classes", &[], "an array of class names"),
    ("deleted_classes", &[], "an array of class names"),
    ("renamed_classes", &["from", "to"], "an array of objects with `from` and `to`"),
    (
        "transferred_classes",
        &["from", "from_script", "to"],
        "an array of objects with `from`, `from_script` and `to`",
    ),
];

/// Reports a migration that wrangler would reject, because ignoring it would give wrong results.
fn check_shape(migration: &Value, at: &[Step], config: &Config, findings: &mut Findings) {
    for (key, fields, expected) in SHAPES {
        let Some(value) = migration.get(key) else { continue };
        let good = |element: &Value| match fields {
            [] => element.is_string(),
            fields => fields.iter().all(|field| text_at(element, field).is_some()),
        };
        if !value.as_array().is_some_and(|list| list.iter().all(good)) {
            let path = [at, &[Step::from(key)]].concat();
            findings.add(Rule::ConfigShape { path: dotted(&path), expected }, Some(config.place(&path)));
        }
    }
}

pub(super) fn strings<'v>(value: &'v Value, key: &str) -> impl Iterator<Item = &'v str> {
    elements_at(value, key).filter_map(Value::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_increase_and_are_never_reused() {
        let next =
            |tags: &[&str]| next_tag(&tags.iter().map(|tag| json!({ "tag": tag })).collect::<Vec<_>>());
        assert_eq!(next(&[]), "v1");
        assert_eq!(next(&["v1"]), "v2");
        assert_eq!(next(&["v1", "v5"]), "v6");
        assert_eq!(next(&["initial"]), "v2");
        assert_eq!(next(&["v99999999999999999999", "x"]), "v3");
    }
}
