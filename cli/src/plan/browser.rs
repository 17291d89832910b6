//! Plans the `browser` binding of scripts. koze adds it where a level has none, never changes one that is there, and removes
//! only its own.

use koze_edit::{Edit, Step};
use serde_json::{Value, json};

use super::Inputs;
use crate::finding::Findings;
use crate::rules::Rule;
use crate::wrangler::level::Level;
use crate::wrangler::scope::dotted;

const KEY: &str = "browser";
/// The name of a binding that koze adds.
const BINDING: &str = "BROWSER";

/// Returns the edits of the binding at one level. `made` lists the blocks that koze created.
pub(super) fn edits(
    inputs: &Inputs,
    level: &Level,
    made: &mut Vec<String>,
    notes: &mut Vec<String>,
    findings: &mut Findings,
) -> Vec<Edit> {
    let path = level.scope.path(&[Step::from(KEY)]);
    let shown = dotted(&path);
    let is_wanted = inputs.project.worker_scripts().is_some_and(|scripts| scripts.browser);
    match level.scope.get(KEY) {
        Some(known) if !is_wanted && made.contains(&shown) => {
            made.retain(|block| *block != shown);
            // With other keys, it is the user's.
            if known.as_object().is_none_or(|known| known.len() > 1) {
                return Vec::new();
            }
            notes.push(format!("removed `{shown}`: scripts have no browser anymore"));
            vec![Edit::Remove { path }]
        }
        None if is_wanted => {
            // Of the top level, so that the name is the same everywhere.
            let known = inputs.config.document.value().get(KEY).and_then(|known| known.get("binding"));
            let name = known.and_then(Value::as_str).unwrap_or(BINDING);
            let object = level.bindings.named(name).first().map(|index| {
                let keys = ["durable_objects", "bindings"].map(Step::from);
                [level.scope.path(&keys), vec![Step::from(*index)]].concat()
            });
            if let Some(taken) = level.others.get(name).cloned().or(object) {
                let message = format!(
                    "`{name}` is the binding of the browser that `browser = true` adds, but it is another binding here"
                );
                let remedy = "rename this one, or add a `browser` binding with another name".to_owned();
                findings.add(Rule::Contradiction { message, remedy }, Some(inputs.config.place(&taken)));
                return Vec::new();
            }
            made.push(shown);
            vec![Edit::Set { path, value: json!({ "binding": name }) }]
        }
        _ => {
            made.retain(|block| *block != shown || level.scope.get(KEY).is_some());
            Vec::new()
        }
    }
}
