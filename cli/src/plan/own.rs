//! Plans koze's own classes: their bindings, and what the lock records of them.

use koze_edit::{Edit, Step};
use serde_json::{Value, json};

use super::Inputs;
use crate::draft::Storage;
use crate::finding::Findings;
use crate::lock::{self, Kept};
use crate::own::Own;
use crate::rules::Rule;
use crate::wrangler::blocks;
use crate::wrangler::level::Level;
use crate::wrangler::lifecycle::Lifecycle;

/// Returns the lock entry for a class after it was removed while its storage is kept.
pub(super) fn kept(own: Own) -> Kept {
    let class = own.class().to_owned();
    Kept { name: class.clone(), class, binding: own.binding().to_owned() }
}

/// Returns the classes that are removed while their storage is kept. It is an error if one has storage and is no longer
/// enabled, unless the user decided what happens to the storage.
pub(super) fn shelved(inputs: &Inputs, lifecycles: &[Lifecycle], findings: &mut Findings) -> Vec<Own> {
    let mut shelved = Vec::new();
    for own in Own::ALL {
        let class = own.class();
        let living = lifecycles.iter().find(|list| list.lives(class));
        let (Some(list), Some(_), false) = (living, inputs.lock.own(own), inputs.project.enables(own)) else {
            continue;
        };
        if inputs.is_removed(class, Storage::Keep) {
            shelved.push(own);
        } else if !inputs.is_dropped(class) {
            findings.add(Rule::OwnGone { own }, list.place(class, inputs.config));
        }
    }
    shelved
}

/// Returns the edits of the binding of a class at one level.
pub(super) fn edits(
    own: Own,
    inputs: &Inputs,
    level: &Level,
    lifecycles: &[Lifecycle],
    notes: &mut Vec<String>,
    findings: &mut Findings,
) -> Vec<Edit> {
    let (name, binding) = (own.class(), own.binding());
    let keys = [Step::from("durable_objects"), Step::from("bindings")];
    if !inputs.project.enables(own) {
        let lives = lifecycles.iter().any(|list| list.lives(name));
        if inputs.lock.own(own).is_none() || (lives && !inputs.is_dropped(name)) {
            return Vec::new();
        }
        notes.push(format!("removed the binding of `{name}`, which no longer exists"));
        return blocks::remove_binding(name, binding, level).into_iter().collect();
    }
    let named = level.bindings.named(binding);
    let class = |index: usize| level.bindings.list[index].get("class_name").and_then(Value::as_str);
    let taken = match named {
        [] => level.others.get(binding).cloned(),
        [index]
            if class(*index) == Some(name) && level.bindings.list[*index].get("script_name").is_none() =>
        {
            return Vec::new();
        }
        [.., index] => Some([level.scope.path(&keys), vec![Step::from(*index)]].concat()),
    };
    if let Some(path) = taken {
        let message = format!(
            "`{binding}` is the binding of the {} that `Cargo.toml` enables, but it is another binding here",
            own.noun()
        );
        let remedy = format!(
            "give this one another name, or remove {}; the class of the {} is `{name}`",
            own.key(),
            own.noun()
        );
        findings.add(Rule::Contradiction { message, remedy }, Some(inputs.config.place(&path)));
        return Vec::new();
    }
    if let Some((index, script)) = blocks::elsewhere(name, level) {
        let message = format!("this binding has the class `{name}` of another Worker, `{script}`");
        let remedy = format!(
            "the class of the {} is in this Worker: remove `script_name`, or {} from `Cargo.toml`",
            own.noun(),
            own.key()
        );
        let path = [level.scope.path(&keys), vec![Step::from(index), Step::from("script_name")]].concat();
        findings.add(Rule::Contradiction { message, remedy }, Some(inputs.config.place(&path)));
        return Vec::new();
    }
    let value = json!({ "name": binding, "class_name": name });
    vec![Edit::Push { path: level.scope.path(&keys), value }]
}

/// Returns the new lock entry of a class; `new` is the tag under which this build creates it.
pub(super) fn locked(
    own: Own,
    inputs: &Inputs,
    lifecycles: &[Lifecycle],
    new: Option<String>,
) -> Option<lock::LockedOwn> {
    inputs.project.enables(own).then(|| {
        let live = lifecycles.first().and_then(|list| list.live.get(own.class()));
        let migration = live.map_or(new, |live| live.tag.clone());
        lock::LockedOwn { class: own.class().to_owned(), binding: own.binding().to_owned(), migration }
    })
}
