//! Hand-written entries that name a class which no longer lives: wrangler would refuse the deployment.

use std::collections::BTreeSet;

use koze_model::Rule;
use serde_json::Value;

use crate::finding::Findings;
use crate::wrangler::document::{Edit, Path, Step};
use crate::wrangler::lifecycle::Lifecycle;
use crate::wrangler::locate::Config;
use crate::wrangler::scope::Scope;

/// The lists whose entries name a class, and what one is called.
const LISTS: [(&[&str], &str); 2] =
    [(&["containers"], "container"), (&["durable_objects", "bindings"], "binding")];

/// Reports what names a dead class once the edits are made; `dead` are the dead classes of each lifecycle.
pub(super) fn check(
    scopes: &[Scope],
    lifecycles: &[Lifecycle],
    dead: &[BTreeSet<String>],
    edits: &[Edit],
    config: &Config,
    findings: &mut Findings,
) {
    for scope in scopes {
        // An environment without a list of its own has the top level's.
        let own = lifecycles.iter().position(|list| list.environment == scope.environment);
        let Some(dead) = dead.get(own.unwrap_or_default()) else { continue };
        for (keys, what) in LISTS {
            for (index, entry) in scope.list(keys).iter().enumerate() {
                let text = |key: &str| entry.get(key).and_then(Value::as_str);
                let Some(class) = text("class_name").filter(|class| dead.contains(*class)) else { continue };
                let mut path = scope.path(&keys.iter().map(|key| Step::from(*key)).collect::<Vec<_>>());
                path.push(Step::from(index));
                if text("script_name").is_some() || edits.iter().any(|edit| mends(edit, &path)) {
                    continue;
                }
                let name = text("name").map_or(String::new(), |name| format!(" `{name}`"));
                let message = format!("the {what}{name} is to the class `{class}`, which no longer lives");
                let remedy = format!(
                    "Cloudflare refuses such a deployment: take the {what} out, or give it another class"
                );
                findings.add(Rule::Contradiction { message, remedy }, Some(config.place(&path)));
            }
        }
    }
}

/// Whether an edit takes an entry out, or gives it another class.
fn mends(edit: &Edit, entry: &Path) -> bool {
    match edit {
        Edit::Remove { path } => entry.starts_with(path),
        Edit::Set { path, .. } => {
            path.starts_with(entry) && path[entry.len()..] == [Step::from("class_name")]
        }
        Edit::Push { .. } => false,
    }
}
