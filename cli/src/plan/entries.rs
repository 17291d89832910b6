//! Containers and bindings: what each level gets, and what koze owns of it.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use koze_model::rules::listed;
use koze_model::{Rule, names};
use serde_json::{Map, Value};

use super::fate::Fate;
use crate::finding::{Finding, Findings};
use crate::lock::{self, Locked};
use crate::wrangler::blocks::{self, Wanted};
use crate::wrangler::document::{Edit, Step};
use crate::wrangler::level::Level;
use crate::wrangler::lifecycle::Lifecycle;
use crate::wrangler::locate::Config;

/// The edits of containers and bindings at one level.
pub(super) fn of_level(
    level: &Level,
    wanted: &[Wanted],
    fate: &Fate,
    config: &Config,
    owned: &mut [Owned],
    notes: &mut Vec<String>,
    findings: &mut Findings,
) -> Vec<Edit> {
    let scope = level.scope;
    let mut edits = Vec::new();
    // Bindings that belong to sandboxes, or go: their names are free for others.
    let mut moving: BTreeSet<usize> = wanted.iter().filter_map(|wanted| wanted.own_binding(level)).collect();
    let going = fate.dropped.iter().map(|locked| (&locked.class, &locked.binding));
    let unbound = fate.unbound.iter().map(|kept| (&kept.class, &kept.binding));
    moving.extend(going.chain(unbound).filter_map(|(class, binding)| blocks::binding(class, binding, level)));
    let mut grown: Vec<&str> = Vec::new();
    for (wanted, owned) in wanted.iter().zip(owned.iter_mut()) {
        let container = wanted.reconcile_container(level, owned.kept.as_ref(), config, findings);
        let binding = wanted.reconcile_binding(level, &moving, config, findings);
        if container.edits.iter().chain(&binding.edits).any(|edit| matches!(edit, Edit::Push { .. })) {
            grown.push(&wanted.sandbox.class.value);
        }
        edits.extend(container.edits.into_iter().chain(binding.edits));
        notes.extend(container.adopted.into_iter().chain(binding.adopted));
        if let Some(entry) = container.entry {
            owned.entries.insert(scope.environment.clone(), entry);
        }
        if let Some(image) = container.kept.as_ref().and_then(|kept| kept.get("image")?.as_str()) {
            owned.kept_images.insert(scope.environment.clone(), image.to_owned());
        }
        if scope.environment.is_none() {
            owned.kept = container.kept;
        }
    }
    notes.extend(scope.environment.as_ref().and_then(|environment| added(&grown, environment)));
    for locked in &fate.dropped {
        let container = blocks::remove_container(&locked.class, level);
        let binding = blocks::remove_binding(&locked.class, &locked.binding, level);
        if container.is_some() || binding.is_some() {
            let class = &locked.class;
            notes.push(format!("removed the container and the binding of `{class}`, which no longer lives"));
        }
        edits.extend(container.into_iter().chain(binding));
    }
    for locked in &fate.shelved {
        let class = &locked.class;
        notes.push(format!("removed the container of `{class}`: the class stays, and with it its storage"));
        edits.extend(blocks::remove_container(class, level));
    }
    for kept in &fate.unbound {
        notes.push(format!("removed the binding of `{}`, which no longer lives", kept.class));
        edits.extend(blocks::remove_binding(&kept.class, &kept.binding, level));
    }
    unique_names(level, wanted, owned, fate, config, findings);
    edits
}

/// Which sandboxes an environment got entries of.
fn added(classes: &[&str], environment: &str) -> Option<String> {
    let which = match classes {
        [] => return None,
        [_] | [_, _] | [_, _, _] => listed(classes),
        many => format!("{} sandboxes", many.len()),
    };
    Some(format!("added entries of {which} to `env.{environment}`"))
}

/// No two containers of one level may have one name: neither two of koze's nor one of koze's and one of the user's.
fn unique_names(
    level: &Level,
    wanted: &[Wanted],
    owned: &[Owned],
    fate: &Fate,
    config: &Config,
    findings: &mut Findings,
) {
    let scope = level.scope;
    let mut ours: BTreeSet<usize> =
        wanted.iter().flat_map(|wanted| level.containers.of_classes(wanted.classes())).collect();
    let going = fate.dropped.iter().chain(&fate.shelved).map(|locked| locked.class.as_str());
    ours.extend(level.containers.of_classes(going));
    let mut seen: HashMap<&str, &Wanted> = HashMap::new();
    for (wanted, owned) in wanted.iter().zip(owned) {
        let Some(entry) = owned.entries.get(&scope.environment) else { continue };
        let name = entry.container.as_str();
        let own_name = entry.keys.iter().any(|key| key == "name");
        if own_name && !names::is_container_name(name) {
            let expected = names::CONTAINER_FORM.to_owned();
            let rule = Rule::BadValue { key: "name".to_owned(), found: name.to_owned(), expected };
            findings.add(rule, Some(wanted.place.clone()));
        }
        let theirs = level.containers.named(name).iter().find(|index| !ours.contains(*index));
        let also = match (seen.insert(name, wanted), theirs) {
            _ if name.is_empty() => continue,
            (Some(other), _) => (other.place.clone(), "the other one".to_owned()),
            (None, Some(index)) => {
                let path = scope.path(&[Step::from("containers"), Step::from(*index)]);
                (config.place(&path), "another container".to_owned())
            }
            (None, None) => continue,
        };
        let rule = Rule::Collision {
            what: "container name",
            name: name.to_owned(),
            remedy: "an application's name is unique in the account: give the sandbox another one, `#[sandbox(name = \"…\")]`",
        };
        findings.push(Finding { rule, place: Some(wanted.place.clone()), also: vec![also] });
    }
}

/// The container entries of a sandbox, by environment.
pub(super) struct Owned {
    entries: BTreeMap<Option<String>, lock::Entry>,
    /// The image of the top level's entry, where it is the user's, with the keys that belong to it.
    kept: Option<Map<String, Value>>,
    /// The images of entries that are the user's, by environment.
    pub(super) kept_images: BTreeMap<Option<String>, String>,
}

impl Owned {
    /// Entries of environments that koze does not look at this time stay recorded.
    pub(super) fn new(wanted: &Wanted) -> Self {
        let environments = wanted.locked.map(|locked| locked.environments.clone()).unwrap_or_default();
        let entries =
            environments.into_iter().map(|(environment, entry)| (Some(environment), entry)).collect();
        Owned { entries, kept: None, kept_images: BTreeMap::new() }
    }

    /// What the lock says of it; `new` is the tag under which this build makes classes.
    pub(super) fn locked(mut self, wanted: &Wanted, lifecycles: &[Lifecycle], new: Option<&str>) -> Locked {
        let sandbox = wanted.sandbox;
        let top =
            self.entries.remove(&None).unwrap_or(lock::Entry { container: String::new(), keys: Vec::new() });
        let class = &sandbox.class.value;
        let made = lifecycles.first().and_then(|lifecycle| {
            let live = lifecycle.live.get(class).or_else(|| lifecycle.live.get(wanted.old?));
            live.map_or_else(|| new.map(str::to_owned), |live| live.tag.clone())
        });
        Locked {
            name: sandbox.names.base.clone(),
            file: sandbox.file.clone(),
            class: class.clone(),
            binding: sandbox.names.binding.clone(),
            migration: made,
            backend: sandbox.attributes.backend().word().to_owned(),
            container: top.container,
            keys: top.keys,
            environments: self
                .entries
                .into_iter()
                .filter_map(|(environment, entry)| Some((environment?, entry)))
                .collect(),
        }
    }
}
