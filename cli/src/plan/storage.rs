//! Plans the migrations or exports that create the declared classes.

use std::collections::BTreeSet;

use koze_edit::Edit;

use super::Inputs;
use super::fate::Fate;
use super::links::Links;
use crate::draft::Storage;
use crate::finding::Findings;
use crate::lock::Tag;
use crate::own::Own;
use crate::rules::Rule;
use crate::wrangler::lifecycle::{Lifecycle, Unmade};

/// The planned storage changes.
pub(super) struct Outcome {
    /// The edits of migrations or exports.
    pub(super) edits: Vec<Edit>,
    /// The tags that koze owns from now on.
    pub(super) tags: Vec<Tag>,
    /// The tag that this build adds at the top level for the sandboxes.
    pub(super) new: Option<String>,
    /// The tags that it adds there for koze's own classes.
    pub(super) new_own: [Option<String>; Own::ALL.len()],
    /// Notes for the user.
    pub(super) notes: Vec<String>,
    /// The classes of each lifecycle that existed before and are deleted now.
    pub(super) dead: Vec<BTreeSet<String>>,
}

/// Plans the migrations or exports that create the declared classes.
pub(super) fn edits(
    lifecycles: &[Lifecycle],
    inputs: &Inputs,
    fate: &Fate,
    links: &Links,
    findings: &mut Findings,
) -> Outcome {
    let declared: Vec<&str> =
        inputs.sandboxes.list.iter().map(|sandbox| sandbox.class.value.as_str()).collect();
    let names = class_names(inputs, fate);
    let deleted: Vec<&str> = inputs.removed_classes(Storage::Delete).collect();
    let unmade: Vec<&str> = inputs.removed_classes(Storage::Never).collect();
    let mut edits = Vec::new();
    let mut tags = Vec::new();
    let mut notes = Vec::new();
    let mut dead = Vec::new();
    let mut new = None;
    let mut new_own = [const { None }; Own::ALL.len()];
    for (index, lifecycle) in lifecycles.iter().enumerate() {
        check_lifecycle(lifecycle, &names, inputs, findings);
        let others = lifecycles.iter().enumerate().filter(|(other, _)| *other != index);
        let mut renames = fate.renames.clone();
        renames.extend(others.flat_map(|(_, other)| other.renamed()));
        let mut changes = lifecycle.changes(&declared, &renames, &deleted);
        changes.links = links.changes_at(lifecycle.environment.as_ref());
        // Each class of koze's own has its own tag, so that it can be added and removed independently.
        let own = Own::ALL.map(|own| {
            let class: &[&str] = if inputs.project.enables(own) { &[own.class()] } else { &[] };
            lifecycle.changes(class, &[], &[])
        });
        let all = own.iter().fold(changes.clone(), |all, more| all.and(more));
        let gone = lifecycle.dead(&all).into_iter().chain(unmade.iter().copied());
        dead.push(gone.map(str::to_owned).collect());
        let at = lifecycle
            .environment
            .as_ref()
            .map_or(String::new(), |name| format!(" in the environment `{name}`"));
        for (old, new) in &changes.renamed {
            notes.push(format!("renamed the class `{old}` to `{new}`{at}: it keeps its storage"));
        }
        if index == 0 {
            notes.extend(changes.deleted.iter().filter_map(|class| never_deployed(class, lifecycle, inputs)));
        }
        let [registry, scripts] = &own;
        let (more, written) = lifecycle.edits([&changes, registry, scripts]);
        lifecycle.check_history(&more, inputs.config, findings);
        edits.extend(more);
        let Unmade { edits: more, tags: unmade } =
            lifecycle.unmake(&unmade, inputs.lock, inputs.config, findings);
        if !more.is_empty() {
            let list = lifecycle.noun();
            notes.extend(inputs.removed_classes(Storage::Never).map(|class| on_your_word(class, list, &at)));
        }
        edits.extend(more);
        if lifecycle.environment.is_none() {
            let tag = |written: &Option<Tag>| written.as_ref().map(|written| written.tag.clone());
            let [sandboxes, own @ ..] = &written;
            (new, new_own) = (tag(sandboxes), own.each_ref().map(tag));
        }
        let locked = inputs.lock.migrations.iter().filter(|tag| tag.environment == lifecycle.environment);
        // If a class was taken out of one of koze's tags, the rest of the tag still belongs to koze.
        tags.extend(locked.filter_map(|locked| match unmade.get(&locked.tag) {
            Some(left) => left.clone().map(|hash| Tag { hash, ..locked.clone() }),
            None => Some(locked.clone()),
        }));
        // Adopting a class also adopts the tag that created it, under its current or former name.
        let former = changes.renamed.iter().map(|(old, _)| old.as_str());
        let made: BTreeSet<&str> = names
            .iter()
            .copied()
            .chain(former)
            .filter_map(|class| lifecycle.live.get(class)?.tag.as_deref())
            .collect();
        for tag in made {
            let known = |locked: &Tag| locked.environment == lifecycle.environment && locked.tag == tag;
            if !tags.iter().any(known) {
                tags.extend(lifecycle.tag(tag));
            }
        }
        tags.extend(written.into_iter().flatten());
    }
    // Tags of environments that are not managed this time stay recorded.
    let root = inputs.config.document.value();
    let skipped = |tag: &&Tag| {
        let there = tag.environment.as_ref().and_then(|name| root.get("env")?.get(name));
        there.is_some() && !lifecycles.iter().any(|lifecycle| lifecycle.environment == tag.environment)
    };
    tags.extend(inputs.lock.migrations.iter().filter(skipped).cloned());
    Outcome { edits, tags, new, new_own, notes, dead }
}

/// Notes that koze created a class and now deletes it.
fn never_deployed(class: &str, lifecycle: &Lifecycle, inputs: &Inputs) -> Option<String> {
    let tag = lifecycle.live.get(class)?.tag.as_deref()?;
    let written =
        inputs.lock.migrations.iter().any(|locked| locked.tag == tag && locked.environment.is_none());
    let kept = inputs.lock.kept.iter().any(|kept| kept.class == class);
    (written && !kept).then(|| {
        format!(
            "if `{class}` was never deployed, Cloudflare rejects creating and deleting it in one deployment (\"was not \
             exported in the previous version\", 10074): run `koze remove {class} --never-deployed`"
        )
    })
}

/// Notes what was done on the user's word, because koze cannot check it.
fn on_your_word(class: &str, list: &str, at: &str) -> String {
    format!(
        "removed `{class}` from {list}{at} because you stated that it was never deployed; if it was, Cloudflare rejects the next deployment and keeps its storage: in that case restore these files from version control"
    )
}

/// Returns the declared classes, each followed by its former name.
fn class_names<'a>(inputs: &Inputs<'a>, fate: &'a Fate) -> Vec<&'a str> {
    let classes = inputs.sandboxes.list.iter().map(|sandbox| sandbox.class.value.as_str());
    let own = inputs.project.enabled().map(|own| -> &'a str { own.class() });
    classes.flat_map(|class| std::iter::once(class).chain(fate.old(class))).chain(own).collect()
}

/// Reports problems with the storage of a class.
fn check_lifecycle(lifecycle: &Lifecycle, names: &[&str], inputs: &Inputs, findings: &mut Findings) {
    lifecycle.check_exports(names, inputs.config, findings);
    for class in names {
        if lifecycle.live.get(*class).is_some_and(|live| !live.sqlite) {
            let (who, remedy) = if Own::ALL.iter().any(|own| own.class() == *class) {
                let remedy = "the storage of a class cannot be changed: delete the class in a migration of your own, and deploy that first";
                ("koze needs", remedy)
            } else {
                let remedy =
                    "the storage of a class cannot be changed: give the sandbox's struct another name";
                ("containers need", remedy)
            };
            let message = format!("the class `{class}` was created without SQLite, which {who}");
            let rule = Rule::Contradiction { message, remedy: remedy.to_owned() };
            findings.add(rule, lifecycle.place(class, inputs.config));
        }
    }
}
