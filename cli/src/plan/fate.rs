//! What became of the classes since the last build: renamed, gone, or as they were.

use std::collections::BTreeSet;

use koze_model::Sandbox;

use super::{Inputs, registry};
use crate::draft::Storage;
use crate::finding::{Finding, Findings};
use crate::lock::{Kept, Lock, Locked};
use crate::rules::Rule;
use crate::wrangler::lifecycle::Lifecycle;

/// What became of the classes.
#[derive(Debug, Default)]
pub(super) struct Fate<'a> {
    /// Classes that go on under another name: old, new.
    pub(super) renames: Vec<(String, String)>,
    /// Sandboxes of the last build whose class no longer lives: their entries go.
    pub(super) dropped: Vec<&'a Locked>,
    /// Sandboxes of the last build that go while their storage stays: only the container goes.
    pub(super) shelved: Vec<&'a Locked>,
    /// Classes kept by an earlier build that no longer live: their binding goes.
    pub(super) unbound: Vec<&'a Kept>,
    /// Classes kept by an earlier build that are declared again.
    declared_again: Vec<&'a Kept>,
    /// Whether the registry goes while its storage stays.
    pub(super) shelved_registry: bool,
}

impl Fate<'_> {
    /// The former name of a class that was renamed.
    pub(super) fn old(&self, class: &str) -> Option<&str> {
        self.renames.iter().find(|(_, new)| new == class).map(|(old, _)| old.as_str())
    }

    /// The classes that are kept from now on.
    pub(super) fn kept(&self, lock: &Lock) -> Vec<Kept> {
        let goes = |kept: &Kept| self.unbound.contains(&kept) || self.declared_again.contains(&kept);
        let registry = self.shelved_registry.then(registry::kept);
        let shelved = self.shelved.iter().map(|locked| Kept {
            name: locked.name.clone(),
            class: locked.class.clone(),
            binding: locked.binding.clone(),
        });
        lock.kept.iter().filter(|kept| !goes(kept)).cloned().chain(shelved).chain(registry).collect()
    }
}

/// Compares the declared sandboxes with the lock. A class that is gone while it has storage is an error, unless the
/// user said what is to become of it.
pub(super) fn resolve<'a>(
    inputs: &Inputs<'a>,
    lifecycles: &[Lifecycle],
    findings: &mut Findings,
) -> Fate<'a> {
    let declared = inputs.sandboxes.list.iter().map(|sandbox| sandbox.class.value.as_str());
    let registry = inputs.project.registry.then_some(registry::CLASS);
    let judge = Judge { inputs, lifecycles, declared: declared.chain(registry).collect() };
    let mut fate = Fate { renames: inputs.draft.renames.clone(), ..Fate::default() };
    judge.declared_renames(&mut fate, findings);
    let new = judge.newcomers(&fate);
    let mut gone = judge.gone(&mut fate);
    // One class for another in the same file is a rename; with any other candidate it would be a guess.
    if let ([locked], [sandbox]) = (gone.as_slice(), new.as_slice())
        && locked.file == sandbox.file
    {
        fate.renames.push((locked.class.clone(), sandbox.class.value.clone()));
        gone.clear();
    }
    judge.check_renames(&fate, findings);
    fate.shelved_registry = registry::is_shelved(inputs, lifecycles, findings);
    for locked in gone {
        findings.push(judge.missing(locked, &new));
    }
    fate
}

/// What the questions are asked of.
struct Judge<'i, 'a> {
    inputs: &'i Inputs<'a>,
    lifecycles: &'i [Lifecycle<'i>],
    declared: BTreeSet<&'a str>,
}

impl<'a> Judge<'_, 'a> {
    /// Whether a class lives anywhere.
    fn lives(&self, class: &str) -> bool {
        self.lifecycles.iter().any(|lifecycle| lifecycle.lives(class))
    }

    /// Whether a class goes on, under its own name or another.
    fn goes_on(&self, class: &str, fate: &Fate) -> bool {
        self.declared.contains(class) || fate.renames.iter().any(|(old, _)| old == class)
    }

    /// What `renamed_from` says.
    fn declared_renames(&self, fate: &mut Fate, findings: &mut Findings) {
        for sandbox in &self.inputs.sandboxes.list {
            let Some(old) = &sandbox.attributes.renamed_from else { continue };
            let class = sandbox.class.value.as_str();
            let place = Some(self.inputs.sandboxes.place(sandbox, old.span));
            if !self.lifecycles.iter().any(|list| list.lives(&old.value) && !list.lives(class)) {
                let why = if self.lives(class) {
                    "the class already exists"
                } else {
                    "no class of that name exists"
                };
                findings.add(Rule::RenameDone { old: old.value.clone(), why }, place);
            } else if self.declared.contains(old.value.as_str()) {
                let message =
                    format!("`{class}` cannot be renamed from `{}`, which is also declared", old.value);
                let remedy = "remove `renamed_from` or the other declaration".to_owned();
                findings.add(Rule::Contradiction { message, remedy }, place);
            } else if fate.renames.iter().any(|(taken, _)| *taken == old.value) {
                let message = format!("two sandboxes are renamed from `{}`", old.value);
                let remedy =
                    "its storage can have only one name: remove `renamed_from` from one of them".to_owned();
                findings.add(Rule::Contradiction { message, remedy }, place);
            } else {
                fate.renames.push((old.value.clone(), class.to_owned()));
            }
        }
    }

    /// The sandboxes that are not locked and somewhere do not live: each may be what a missing one was renamed to.
    fn newcomers(&self, fate: &Fate) -> Vec<&'a Sandbox> {
        let locked: BTreeSet<&str> =
            self.inputs.lock.sandboxes.iter().map(|locked| locked.class.as_str()).collect();
        let is_new = |sandbox: &&Sandbox| {
            let class = sandbox.class.value.as_str();
            let made = self.lifecycles.iter().all(|lifecycle| lifecycle.lives(class));
            !locked.contains(class) && !made && fate.old(class).is_none()
        };
        self.inputs.sandboxes.list.iter().filter(is_new).collect()
    }

    /// The locked sandboxes that are gone while their class lives, but for those of which the user said what is to
    /// become of them; these go to `fate`.
    fn gone(&self, fate: &mut Fate<'a>) -> Vec<&'a Locked> {
        for kept in &self.inputs.lock.kept {
            if self.goes_on(&kept.class, fate) {
                fate.declared_again.push(kept);
            } else if self.inputs.drops(&kept.class) || !self.lives(&kept.class) {
                fate.unbound.push(kept);
            }
        }
        let mut gone = Vec::new();
        for locked in &self.inputs.lock.sandboxes {
            if self.goes_on(&locked.class, fate) {
                continue;
            }
            if self.inputs.drops(&locked.class) || !self.lives(&locked.class) {
                fate.dropped.push(locked);
            } else if self.inputs.removes(&locked.class, Storage::Keep) {
                fate.shelved.push(locked);
            } else {
                gone.push(locked);
            }
        }
        gone
    }

    /// A rename needs a name that is free.
    fn check_renames(&self, fate: &Fate, findings: &mut Findings) {
        for (old, new) in &fate.renames {
            let Some(both) = self.lifecycles.iter().find(|list| list.lives(old) && list.lives(new)) else {
                continue;
            };
            let environment = both.environment.as_ref();
            let at = environment.map_or(String::new(), |name| format!(" in the environment `{name}`"));
            let message = format!("`{old}` cannot be renamed to `{new}`: both exist{at}");
            let remedy =
                "a rename would lose the storage of one of them: give the struct another name".to_owned();
            findings.add(Rule::Contradiction { message, remedy }, both.place(old, self.inputs.config));
        }
    }

    /// A class that is gone while it has storage.
    fn missing(&self, locked: &Locked, new: &[&Sandbox]) -> Finding {
        let sandboxes = self.inputs.sandboxes;
        let (class, file, name) = (locked.class.clone(), locked.file.clone(), locked.name.clone());
        let rule = if new.is_empty() {
            let now = sandboxes.list.iter().find(|sandbox| sandbox.file == locked.file);
            Rule::ClassGone { class, file, name, now: now.map(|sandbox| sandbox.class.value.clone()) }
        } else {
            let candidates = new.iter().map(|sandbox| sandbox.class.value.clone()).collect();
            Rule::AmbiguousRename { class, file, name, candidates }
        };
        let perhaps = |sandbox: &&Sandbox| {
            (sandboxes.place(sandbox, sandbox.class.span), "perhaps this one".to_owned())
        };
        let made = |list: &Lifecycle| list.place(&locked.class, self.inputs.config);
        Finding {
            rule,
            place: self.lifecycles.iter().find_map(made),
            also: new.iter().map(perhaps).collect(),
        }
    }
}
