//! The class that records the sandboxes of sessions: `registry = true` in `Cargo.toml` makes it, and nothing but a word of
//! the user takes it away again.

use koze_core::contract::REGISTRY_BINDING as BINDING;
use koze_edit::{Edit, Step};
use serde_json::{Value, json};

use super::Inputs;
use crate::draft::Storage;
use crate::finding::Findings;
use crate::lock::{self, Kept};
use crate::rules::Rule;
use crate::wrangler::blocks;
use crate::wrangler::level::Level;
use crate::wrangler::lifecycle::Lifecycle;

/// The class.
pub(crate) const CLASS: &str = "KozeSessions";

/// What the lock says of it once it is kept without being used.
pub(super) fn kept() -> Kept {
    Kept { name: CLASS.to_owned(), class: CLASS.to_owned(), binding: BINDING.to_owned() }
}

/// Whether it goes while its storage stays. One that is gone and has storage is an error, unless the user said what is to
/// become of it.
pub(super) fn is_shelved(inputs: &Inputs, lifecycles: &[Lifecycle], findings: &mut Findings) -> bool {
    let living = lifecycles.iter().find(|list| list.lives(CLASS));
    let (Some(list), Some(_), false) = (living, &inputs.lock.registry, inputs.project.registry) else {
        return false;
    };
    let shelved = inputs.removes(CLASS, Storage::Keep);
    if !shelved && !inputs.drops(CLASS) {
        findings.add(Rule::RegistryGone { class: CLASS.to_owned() }, list.place(CLASS, inputs.config));
    }
    shelved
}

/// The edits of its binding at one level.
pub(super) fn edits(
    inputs: &Inputs,
    level: &Level,
    lifecycles: &[Lifecycle],
    notes: &mut Vec<String>,
    findings: &mut Findings,
) -> Vec<Edit> {
    let keys = [Step::from("durable_objects"), Step::from("bindings")];
    if !inputs.project.registry {
        let lives = lifecycles.iter().any(|list| list.lives(CLASS));
        if inputs.lock.registry.is_none() || (lives && !inputs.drops(CLASS)) {
            return Vec::new();
        }
        notes.push(format!("removed the binding of `{CLASS}`, which no longer exists"));
        return blocks::remove_binding(CLASS, BINDING, level).into_iter().collect();
    }
    let named = level.bindings.named(BINDING);
    let class = |index: usize| level.bindings.list[index].get("class_name").and_then(Value::as_str);
    let taken = match named {
        [] => level.others.get(BINDING).cloned(),
        [index]
            if class(*index) == Some(CLASS) && level.bindings.list[*index].get("script_name").is_none() =>
        {
            return Vec::new();
        }
        [.., index] => Some([level.scope.path(&keys), vec![Step::from(*index)]].concat()),
    };
    if let Some(path) = taken {
        let message = format!(
            "`{BINDING}` is the binding of the registry that `Cargo.toml` enables, but it is another binding here"
        );
        let remedy = format!(
            "give this one another name, or remove `registry = true`; the registry's class is `{CLASS}`"
        );
        findings.add(Rule::Contradiction { message, remedy }, Some(inputs.config.place(&path)));
        return Vec::new();
    }
    if let Some((index, script)) = blocks::elsewhere(CLASS, level) {
        let message = format!("this binding has the class `{CLASS}` of another Worker, `{script}`");
        let remedy =
            "the registry's class is in this Worker: remove `script_name`, or `registry = true` from `Cargo.toml`"
                .to_owned();
        let path = [level.scope.path(&keys), vec![Step::from(index), Step::from("script_name")]].concat();
        findings.add(Rule::Contradiction { message, remedy }, Some(inputs.config.place(&path)));
        return Vec::new();
    }
    let value = json!({ "name": BINDING, "class_name": CLASS });
    vec![Edit::Push { path: level.scope.path(&keys), value }]
}

/// What the lock says of it from now on; `new` is the tag under which this build makes it.
pub(super) fn locked(
    inputs: &Inputs,
    lifecycles: &[Lifecycle],
    new: Option<String>,
) -> Option<lock::Registry> {
    inputs.project.registry.then(|| {
        let live = lifecycles.first().and_then(|list| list.live.get(CLASS));
        let migration = live.map_or(new, |live| live.tag.clone());
        lock::Registry { class: CLASS.to_owned(), binding: BINDING.to_owned(), migration }
    })
}
