//! The TOML editor: turns a plan into splices of the text.
//!
//! `toml_edit` only parses. Its printer would change line endings and drop the byte order mark.

use std::collections::{BTreeMap, BTreeSet};

use crate::plan::{Fate, Growth, New, Plan};
use crate::source::{Source, Splices};
use crate::tree::{Id, Tree};
use change::Change;

mod change;
mod grow;
mod layout;
mod parse;
mod remove;
mod render;

pub(crate) use layout::Layout;
pub(crate) use parse::parse;

/// Computes the splices that apply the plan.
pub(crate) fn splices(layout: &Layout, source: &Source, tree: &Tree, plan: &Plan) -> Splices {
    let mut change = Change::new(layout, source, tree);
    let mut moved: BTreeMap<Id, Vec<(&str, New)>> = BTreeMap::new();
    for (id, fate) in plan.fates() {
        match fate {
            Fate::Keep => {}
            Fate::Remove => change.remove(id),
            Fate::Replace(value) => {
                let node = tree.node(id);
                if !change.replace(id, value)
                    && let (Some(parent), Some(name)) = (node.parent, node.name.as_deref())
                {
                    change.remove(id);
                    moved.entry(parent).or_default().push((name, New::Value(value.clone())));
                }
            }
        }
    }
    // Inner tables first: their additions must precede those of an outer table at the same place.
    let growing: BTreeSet<Id> = moved.keys().copied().chain(plan.growth().map(|(id, _)| id)).collect();
    for id in growing.into_iter().rev() {
        let moved = moved.remove(&id).unwrap_or_default();
        let moved = moved.iter().map(|(name, new)| (*name, new));
        match plan.growth_of(id) {
            Some(Growth::Members(members)) => change.members(id, moved.chain(members.iter())),
            Some(Growth::Elements(values)) => change.elements(id, values),
            None => change.members(id, moved),
        }
    }
    change.cut();
    change.lists();
    change.out
}
