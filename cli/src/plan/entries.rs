//! Plans the containers and bindings of each level, and records what koze owns of them.

use std::collections::{BTreeSet, HashMap};

use koze_edit::{Edit, Step};
use koze_model::rules::listed;
use koze_model::{Kind, names};

use super::fate::Fate;
use super::sandbox::Planning;
use crate::finding::{Finding, Findings};
use crate::wrangler::blocks::{self, Above, Wanted};
use crate::wrangler::level::Level;
use crate::wrangler::locate::Config;

/// Returns the edits of containers and bindings at one level.
pub(super) fn of_level(
    level: &Level,
    sandboxes: &mut [Planning],
    fate: &Fate,
    config: &Config,
    notes: &mut Vec<String>,
    findings: &mut Findings,
) -> Vec<Edit> {
    let scope = level.scope;
    let mut edits = Vec::new();
    // Bindings of sandboxes, and those that are removed; other bindings may use their names.
    let mut moving: BTreeSet<usize> =
        sandboxes.iter().filter_map(|planning| planning.wanted.own_binding(level)).collect();
    let going = fate.dropped.iter().map(|locked| (&locked.class, &locked.binding));
    let unbound = fate.unbound.iter().map(|kept| (&kept.class, &kept.binding));
    moving.extend(going.chain(unbound).filter_map(|(class, binding)| blocks::binding(class, binding, level)));
    let mut grown: Vec<&str> = Vec::new();
    for Planning { wanted, entries, kept, kept_images } in &mut *sandboxes {
        let application = entries.get(&None).map(|entry| entry.container.as_str());
        let above = Above { application, image: kept.as_ref() };
        let container = wanted.reconcile_container(level, above, config, findings);
        let binding = wanted.reconcile_binding(level, &moving, config, findings);
        if container.edits.iter().chain(&binding.edits).any(|edit| matches!(edit, Edit::Push { .. })) {
            grown.push(&wanted.sandbox.class.value);
        }
        edits.extend(container.edits.into_iter().chain(binding.edits));
        notes.extend(container.adopted.into_iter().chain(binding.adopted));
        if let Some(entry) = container.entry {
            entries.insert(scope.environment.clone(), entry);
        }
        if let Some(image) = container.kept.as_ref().and_then(|kept| kept.get("image")?.as_str()) {
            kept_images.insert(scope.environment.clone(), image.to_owned());
        }
        if scope.environment.is_none() {
            *kept = container.kept;
        }
    }
    notes.extend(scope.environment.as_ref().and_then(|environment| describe_added(&grown, environment)));
    for locked in &fate.dropped {
        let container = blocks::remove_container(&locked.class, level);
        let binding = blocks::remove_binding(&locked.class, &locked.binding, level);
        if container.is_some() || binding.is_some() {
            let class = &locked.class;
            notes.push(format!("removed the container and the binding of `{class}`, which no longer exists"));
        }
        edits.extend(container.into_iter().chain(binding));
    }
    for locked in &fate.shelved {
        let class = &locked.class;
        notes.push(format!("removed the container of `{class}`: the class keeps its storage"));
        edits.extend(blocks::remove_container(class, level));
    }
    for kept in &fate.unbound {
        notes.push(format!("removed the binding of `{}`, which no longer exists", kept.class));
        edits.extend(blocks::remove_binding(&kept.class, &kept.binding, level));
    }
    unique_names(level, sandboxes, fate, config, findings);
    edits
}

/// Describes which sandboxes an environment got entries for.
fn describe_added(classes: &[&str], environment: &str) -> Option<String> {
    let which = match classes {
        [] => return None,
        [_] | [_, _] | [_, _, _] => listed(classes),
        many => format!("{} sandboxes", many.len()),
    };
    Some(format!("added entries of {which} to `env.{environment}`"))
}

/// Reports containers of one level that have the same name, whether koze or the user wrote them.
fn unique_names(
    level: &Level,
    sandboxes: &[Planning],
    fate: &Fate,
    config: &Config,
    findings: &mut Findings,
) {
    let scope = level.scope;
    let of = |planning: &Planning| level.containers.of_classes(planning.wanted.classes());
    let mut ours: BTreeSet<usize> = sandboxes.iter().flat_map(of).collect();
    let going = fate.dropped.iter().chain(&fate.shelved).map(|locked| locked.class.as_str());
    ours.extend(level.containers.of_classes(going));
    let mut seen: HashMap<&str, &Wanted> = HashMap::new();
    for Planning { wanted, entries, .. } in sandboxes {
        let Some(entry) = entries.get(&scope.environment) else { continue };
        let name = entry.container.as_str();
        let own_name = entry.keys.iter().any(|key| key == "name");
        if own_name && !names::is_container_name(name) {
            let expected = names::CONTAINER_FORM.to_owned();
            let rule =
                koze_model::Rule::BadValue { key: "name".to_owned(), found: name.to_owned(), expected };
            findings.add(rule, Some(wanted.place.clone()));
        }
        // A class that has the sandbox's binding is reported there, and its container need not be.
        let is_reported = |container: &usize| {
            let bound = level.bindings.named(&wanted.sandbox.names.binding).iter();
            let classes = bound.filter_map(|index| level.bindings.list[*index].get("class_name")?.as_str());
            level.containers.of_classes(classes).contains(container)
        };
        let mut theirs = level.containers.named(name).iter();
        let theirs = theirs.find(|index| !ours.contains(*index) && !is_reported(index));
        let also = match (seen.insert(name, wanted), theirs) {
            _ if name.is_empty() => continue,
            (Some(other), _) => (other.place.clone(), "the other one".to_owned()),
            (None, Some(index)) => {
                let path = scope.path(&[Step::from("containers"), Step::from(*index)]);
                (config.place(&path), "another container".to_owned())
            }
            (None, None) => continue,
        };
        let kind = wanted.sandbox.kind();
        let rule = koze_model::Rule::Collision {
            kinds: [kind; 2],
            what: "container name",
            name: name.to_owned(),
            remedy: match kind {
                Kind::Sandbox => {
                    "an application's name must be unique in the account: set another one with `#[sandbox(name = \"…\")]`"
                }
                Kind::Container => {
                    "an application's name must be unique in the account: set another one with `#[container(name = \"…\")]`"
                }
            },
        };
        findings.push(Finding { rule: rule.into(), place: Some(wanted.place.clone()), also: vec![also] });
    }
}
