//! Storage: the migrations or exports that make the declared classes live.

use std::collections::BTreeSet;

use koze_model::Rule;

use super::Inputs;
use super::fate::Fate;
use crate::build::Storage;
use crate::finding::Findings;
use crate::lock::Tag;
use crate::wrangler::document::Edit;
use crate::wrangler::lifecycle::Lifecycle;

/// The edits of migrations or exports, and the tags that koze answers for from now on.
pub(super) fn edits(
    lifecycles: &[Lifecycle],
    inputs: &Inputs,
    fate: &Fate,
    findings: &mut Findings,
) -> (Vec<Edit>, Vec<Tag>) {
    let declared: Vec<&str> =
        inputs.sandboxes.list.iter().map(|sandbox| sandbox.class.value.as_str()).collect();
    let mut renames = fate.renames.clone();
    renames.extend(lifecycles.iter().flat_map(Lifecycle::renamed));
    let mut edits = Vec::new();
    let mut tags = Vec::new();
    for lifecycle in lifecycles {
        let former = |class: &str| fate.old(class).map(str::to_owned);
        let with_former: Vec<String> = declared
            .iter()
            .flat_map(|class| std::iter::once((*class).to_owned()).chain(former(class)))
            .collect();
        let names: Vec<&str> = with_former.iter().map(String::as_str).collect();
        lifecycle.check_exports(&names, inputs.config, findings);
        for class in &names {
            if lifecycle.live.get(*class).is_some_and(|live| !live.sqlite) {
                let message = format!("the class `{class}` was made without SQLite, which containers need");
                let remedy =
                    "a class keeps the storage it was made with: give the sandbox's struct another name";
                let rule = Rule::Contradiction { message, remedy: remedy.to_owned() };
                findings.add(rule, lifecycle.place(class, inputs.config));
            }
        }

        let deleted: Vec<&str> = inputs
            .removal
            .into_iter()
            .filter(|(_, storage)| *storage == Storage::Delete)
            .map(|(class, _)| class)
            .collect();
        let changes = lifecycle.changes(&declared, &renames, &deleted);
        let (more, written) = lifecycle.edits(&changes);
        edits.extend(more);
        let locked = inputs.lock.migrations.iter().filter(|tag| tag.environment == lifecycle.environment);
        tags.extend(locked.cloned());
        // A class that koze takes over brings the tag that made it, under whichever name it lives here.
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
        tags.extend(written);
    }
    (edits, tags)
}
