//! What became of the classes since the last build: renamed, gone, or as they were.

use std::collections::BTreeSet;

use koze_model::{Rule, Sandbox};

use crate::discover::Sandboxes;
use crate::finding::{Finding, Findings};
use crate::lock::{Lock, Locked};
use crate::wrangler::lifecycle::Lifecycle;
use crate::wrangler::locate::Config;

/// What became of the classes.
#[derive(Debug, Default)]
pub(super) struct Fate<'a> {
    /// Classes that go on under another name: old, new.
    pub(super) renames: Vec<(String, String)>,
    /// Sandboxes of the last build whose class no longer lives: their entries go.
    pub(super) dropped: Vec<&'a Locked>,
}

impl Fate<'_> {
    /// The former name of a class that was renamed.
    pub(super) fn old(&self, class: &str) -> Option<&str> {
        self.renames.iter().find(|(_, new)| new == class).map(|(old, _)| old.as_str())
    }
}

/// Compares the declared sandboxes with the lock. A class that is gone while it has storage is an error, unless it is
/// one of `deletions`.
pub(super) fn resolve<'a>(
    sandboxes: &Sandboxes,
    lock: &'a Lock,
    lifecycles: &[Lifecycle],
    deletions: &[String],
    config: &Config,
    findings: &mut Findings,
) -> Fate<'a> {
    let lives = |class: &str| lifecycles.iter().any(|lifecycle| lifecycle.lives(class));
    let declared: BTreeSet<&str> =
        sandboxes.list.iter().map(|sandbox| sandbox.class.value.as_str()).collect();
    let mut fate = Fate::default();

    for sandbox in &sandboxes.list {
        let Some(old) = &sandbox.attributes.renamed_from else {
            continue;
        };
        let class = sandbox.class.value.as_str();
        let place = sandboxes.place(sandbox, old.span);
        if declared.contains(old.value.as_str()) {
            let message = format!("`{class}` cannot be renamed from `{}`, which is declared too", old.value);
            let remedy = "take `renamed_from` out, or the other declaration".to_owned();
            findings.add(Rule::Contradiction { message, remedy }, Some(place));
        } else if fate.renames.iter().any(|(taken, _)| *taken == old.value) {
            let message = format!("two sandboxes are renamed from `{}`", old.value);
            let remedy =
                "its storage goes on under one name: take `renamed_from` out of one of them".to_owned();
            findings.add(Rule::Contradiction { message, remedy }, Some(place));
        } else if lifecycles.iter().any(|lifecycle| lifecycle.lives(&old.value) && !lifecycle.lives(class)) {
            fate.renames.push((old.value.clone(), class.to_owned()));
        } else {
            let why = if lives(class) { "the class already lives" } else { "no class of that name lives" };
            findings.add(Rule::RenameDone { old: old.value.clone(), why }, Some(place));
        }
    }

    let locked: BTreeSet<&str> = lock.sandboxes.iter().map(|locked| locked.class.as_str()).collect();
    // A class that is not locked, and somewhere does not live, is new there, and may be what a missing one was renamed to.
    let new: Vec<&Sandbox> = sandboxes
        .list
        .iter()
        .filter(|sandbox| {
            let class = sandbox.class.value.as_str();
            let made = lifecycles.iter().all(|lifecycle| lifecycle.lives(class));
            !locked.contains(class) && !made && fate.old(class).is_none()
        })
        .collect();
    let mut gone: Vec<&Locked> = Vec::new();
    for locked in &lock.sandboxes {
        let class = locked.class.as_str();
        if declared.contains(class) || fate.renames.iter().any(|(old, _)| old == class) {
            continue;
        }
        if deletions.contains(&locked.class) || !lives(class) {
            fate.dropped.push(locked);
        } else {
            gone.push(locked);
        }
    }
    // One class for another in the same file is a rename; with any other candidate it would be a guess.
    if let ([locked], [sandbox]) = (gone.as_slice(), new.as_slice())
        && locked.file == sandbox.file
    {
        fate.renames.push((locked.class.clone(), sandbox.class.value.clone()));
        gone.clear();
    }
    for (old, new) in &fate.renames {
        if let Some(both) = lifecycles.iter().find(|lifecycle| lifecycle.lives(old) && lifecycle.lives(new)) {
            let at = both
                .environment
                .as_ref()
                .map_or(String::new(), |name| format!(" in the environment `{name}`"));
            let message = format!("`{old}` cannot be renamed to `{new}`: both live{at}");
            let remedy =
                "a rename would leave the storage of one of them behind: give the struct another name"
                    .to_owned();
            findings.add(Rule::Contradiction { message, remedy }, both.place(old, config));
        }
    }
    for locked in gone {
        let rule = if new.is_empty() {
            Rule::ClassGone {
                class: locked.class.clone(),
                file: locked.file.clone(),
                name: locked.name.clone(),
                now: sandboxes
                    .list
                    .iter()
                    .find(|sandbox| sandbox.file == locked.file)
                    .map(|sandbox| sandbox.class.value.clone()),
            }
        } else {
            let candidates = new.iter().map(|sandbox| sandbox.class.value.clone()).collect();
            Rule::AmbiguousRename {
                class: locked.class.clone(),
                file: locked.file.clone(),
                name: locked.name.clone(),
                candidates,
            }
        };
        let place = lifecycles.iter().find_map(|lifecycle| lifecycle.place(&locked.class, config));
        let also = new
            .iter()
            .map(|sandbox| (sandboxes.place(sandbox, sandbox.class.span), "perhaps this one".to_owned()));
        findings.push(Finding { rule, place, also: also.collect() });
    }
    fate
}
