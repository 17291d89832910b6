//! Determines what happened to the classes since the last build: renamed, removed, or unchanged.

use std::collections::BTreeSet;

use koze_model::Sandbox;

use super::{Inputs, own};
use crate::draft::Storage;
use crate::finding::{Finding, Findings};
use crate::lock::{Kept, Lock, Locked};
use crate::own::Own;
use crate::rules::Rule;
use crate::wrangler::lifecycle::Lifecycle;

/// What happened to the classes.
#[derive(Debug, Default)]
pub(super) struct Fate<'a> {
    /// Renamed classes, as pairs of old and new name.
    pub(super) renames: Vec<(String, String)>,
    /// Sandboxes of the last build whose class no longer exists. Their entries are removed.
    pub(super) dropped: Vec<&'a Locked>,
    /// Sandboxes of the last build that are removed while their storage is kept. Only the container is removed.
    pub(super) shelved: Vec<&'a Locked>,
    /// Classes kept by an earlier build that no longer exist. Their binding is removed.
    pub(super) unbound: Vec<&'a Kept>,
    /// Classes kept by an earlier build that are declared again.
    declared_again: Vec<&'a Kept>,
    /// koze's own classes that are removed while their storage is kept.
    shelved_own: Vec<Own>,
}

impl Fate<'_> {
    /// Returns the former name of a renamed class.
    pub(super) fn old(&self, class: &str) -> Option<&str> {
        self.renames.iter().find(|(_, new)| new == class).map(|(old, _)| old.as_str())
    }

    /// Returns the classes that are kept from now on.
    pub(super) fn kept(&self, lock: &Lock) -> Vec<Kept> {
        let goes = |kept: &Kept| self.unbound.contains(&kept) || self.declared_again.contains(&kept);
        let shelved_own = self.shelved_own.iter().copied().map(own::kept);
        let shelved = self.shelved.iter().map(|locked| Kept {
            name: locked.name.clone(),
            class: locked.class.clone(),
            binding: locked.binding.clone(),
        });
        lock.kept.iter().filter(|kept| !goes(kept)).cloned().chain(shelved).chain(shelved_own).collect()
    }
}

/// Compares the declared sandboxes with the lock. A removed class that has storage is an error, unless the user decided
/// what happens to the storage.
pub(super) fn resolve<'a>(
    inputs: &Inputs<'a>,
    lifecycles: &[Lifecycle],
    findings: &mut Findings,
) -> Fate<'a> {
    let declared = inputs.sandboxes.list.iter().map(|sandbox| sandbox.class.value.as_str());
    let enabled = inputs.project.enabled().map(|own| -> &'a str { own.class() });
    let judge = Judge { inputs, lifecycles, declared: declared.chain(enabled).collect() };
    let mut fate = Fate { renames: inputs.draft.renames.clone(), ..Fate::default() };
    judge.declared_renames(&mut fate, findings);
    let new = judge.new_sandboxes(&fate);
    let mut gone = judge.find_undeclared(&mut fate);
    // One class replaced another one in the same file, so this is a rename. Any other candidate would be a guess.
    if let ([locked], [sandbox]) = (gone.as_slice(), new.as_slice())
        && locked.file == sandbox.file
    {
        fate.renames.push((locked.class.clone(), sandbox.class.value.clone()));
        gone.clear();
    }
    judge.check_renames(&fate, findings);
    fate.shelved_own = own::shelved(inputs, lifecycles, findings);
    for locked in gone {
        findings.push(judge.class_gone_finding(locked, &new));
    }
    fate
}

/// The inputs for determining what happened to each class.
struct Judge<'i, 'a> {
    inputs: &'i Inputs<'a>,
    lifecycles: &'i [Lifecycle<'i>],
    declared: BTreeSet<&'a str>,
}

impl<'a> Judge<'_, 'a> {
    /// Returns whether a class exists in any lifecycle.
    fn is_live(&self, class: &str) -> bool {
        self.lifecycles.iter().any(|lifecycle| lifecycle.lives(class))
    }

    /// Returns whether a class continues to exist, under its own name or another.
    fn goes_on(&self, class: &str, fate: &Fate) -> bool {
        self.declared.contains(class) || fate.renames.iter().any(|(old, _)| old == class)
    }

    /// Applies `renamed_from`.
    fn declared_renames(&self, fate: &mut Fate, findings: &mut Findings) {
        for sandbox in &self.inputs.sandboxes.list {
            let Some(old) = &sandbox.attributes.renamed_from else { continue };
            let class = sandbox.class.value.as_str();
            let place = Some(self.inputs.sandboxes.place(sandbox, old.span));
            if !self.lifecycles.iter().any(|list| list.lives(&old.value) && !list.lives(class)) {
                let why = if self.is_live(class) {
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

    /// Returns the sandboxes that are not locked and do not exist everywhere. Each may be the new name of a missing
    /// one.
    fn new_sandboxes(&self, fate: &Fate) -> Vec<&'a Sandbox> {
        let locked: BTreeSet<&str> =
            self.inputs.lock.sandboxes.iter().map(|locked| locked.class.as_str()).collect();
        let is_new = |sandbox: &&Sandbox| {
            let class = sandbox.class.value.as_str();
            let made = self.lifecycles.iter().all(|lifecycle| lifecycle.lives(class));
            !locked.contains(class) && !made && fate.old(class).is_none()
        };
        self.inputs.sandboxes.list.iter().filter(is_new).collect()
    }

    /// Returns the locked sandboxes that no file declares while their class exists. Those whose removal the user
    /// requested are added to `fate` instead.
    fn find_undeclared(&self, fate: &mut Fate<'a>) -> Vec<&'a Locked> {
        for kept in &self.inputs.lock.kept {
            if self.goes_on(&kept.class, fate) {
                fate.declared_again.push(kept);
            } else if self.inputs.is_dropped(&kept.class) || !self.is_live(&kept.class) {
                fate.unbound.push(kept);
            }
        }
        let mut gone = Vec::new();
        for locked in &self.inputs.lock.sandboxes {
            if self.goes_on(&locked.class, fate) {
                continue;
            }
            if self.inputs.is_dropped(&locked.class) || !self.is_live(&locked.class) {
                fate.dropped.push(locked);
            } else if self.inputs.is_removed(&locked.class, Storage::Keep) {
                fate.shelved.push(locked);
            } else {
                gone.push(locked);
            }
        }
        gone
    }

    /// Checks that the new names of renames are free.
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

    /// Reports a removed class that has storage.
    fn class_gone_finding(&self, locked: &Locked, new: &[&Sandbox]) -> Finding {
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
