//! Reports hand-written entries that name a class which no longer exists. wrangler would reject the deployment.

use std::collections::BTreeSet;

use koze_edit::{Edit, Path, Step};
use serde_json::Value;

use crate::finding::Findings;
use crate::rules::Rule;
use crate::wrangler::lifecycle::Lifecycle;
use crate::wrangler::locate::Config;
use crate::wrangler::scope::Scope;

/// The lists whose entries name a class, and the noun for an entry.
const LISTS: [(&[&str], &str); 2] =
    [(&["containers"], "container"), (&["durable_objects", "bindings"], "binding")];

/// Reports entries that name a deleted class after the edits; `dead` holds the deleted classes of each lifecycle.
pub(super) fn check(
    scopes: &[Scope],
    lifecycles: &[Lifecycle],
    dead: &[BTreeSet<String>],
    edits: &[Edit],
    config: &Config,
    findings: &mut Findings,
) {
    for scope in scopes {
        // An environment without its own list inherits that of the top level.
        let own = lifecycles.iter().position(|list| list.environment == scope.environment);
        let Some(dead) = dead.get(own.unwrap_or_default()) else { continue };
        for Leftover { what, class, path } in of_level(scope, dead) {
            if edits.iter().any(|edit| is_repair_of(edit, &path)) {
                continue;
            }
            let message = format!("{what} refers to the class `{class}`, which no longer exists");
            let remedy = "Cloudflare rejects such a deployment: remove the entry, or give it another class";
            let rule = Rule::Contradiction { message, remedy: remedy.to_owned() };
            findings.add(rule, Some(config.place(&path)));
        }
    }
    check_others(scopes, &dead[0], config, findings);
}

/// Warns about environments that koze does not manage and that name a deleted class of the top level.
fn check_others(scopes: &[Scope], dead: &BTreeSet<String>, config: &Config, findings: &mut Findings) {
    let root = config.document.value();
    for (name, value) in root.get("env").and_then(Value::as_object).into_iter().flatten() {
        let other = Scope::of_environment(name, value, root);
        if scopes.iter().any(|scope| scope.environment == other.environment) {
            continue;
        }
        for Leftover { what, class, path } in of_level(&other, dead) {
            let rule = Rule::Stranded { what, class, environment: name.clone() };
            findings.add(rule, Some(config.place(&path)));
        }
    }
}

/// An entry that names a deleted class.
struct Leftover {
    /// A description of the entry.
    what: String,
    class: String,
    path: Path,
}

/// Returns the entries of a level that name deleted classes of this Worker.
fn of_level(scope: &Scope, dead: &BTreeSet<String>) -> Vec<Leftover> {
    let mut found = Vec::new();
    if dead.is_empty() {
        return found;
    }
    for (keys, what) in LISTS {
        for (index, entry) in scope.list(keys).iter().enumerate() {
            let text = |key: &str| entry.get(key).and_then(Value::as_str);
            let Some(class) = text("class_name").filter(|class| dead.contains(*class)) else { continue };
            if text("script_name").is_some() {
                continue;
            }
            let mut path = scope.path(&keys.iter().map(|key| Step::from(*key)).collect::<Vec<_>>());
            path.push(Step::from(index));
            let name = text("name").map_or(String::new(), |name| format!(" `{name}`"));
            found.push(Leftover { what: format!("the {what}{name}"), class: class.to_owned(), path });
        }
    }
    found
}

/// Returns whether an edit removes an entry or changes its class.
fn is_repair_of(edit: &Edit, entry: &Path) -> bool {
    match edit {
        Edit::Remove { path } => entry.starts_with(path),
        Edit::Set { path, .. } => {
            path.starts_with(entry) && path[entry.len()..] == [Step::from("class_name")]
        }
        Edit::Push { .. } => false,
    }
}
