//! Detects the layout of a text near a location. A file may combine several layouts.

use std::collections::BTreeMap;

use super::render::Render;
use crate::list::{Item, List};
use crate::source::Source;
use crate::tree::{Id, Tree};

/// How many entries on either side count as near. A list may have thousands.
const REACH: usize = 16;

/// The brackets of a text.
#[derive(Debug)]
pub(crate) struct Layout {
    pub(super) lists: BTreeMap<Id, List>,
}

impl Layout {
    /// Returns how to write new values inside or in place of a value.
    pub(super) fn render<'a>(&'a self, source: &'a Source, tree: &Tree, id: Id) -> Render<'a> {
        Render {
            newline: source.newline,
            unit: self.nearest(tree, id, |list| list.unit(source)).unwrap_or("  "),
            trailing: self.nearest(tree, id, |list| list.trailing(source)).unwrap_or_default(),
        }
    }

    /// Returns the answer of the nearest brackets: those in the value's own entries, the last one first; the value's
    /// own; and then those around it, in the same way, where the neighboring entries come first.
    fn nearest<'a, T>(&'a self, tree: &Tree, id: Id, says: impl Fn(&'a List) -> Option<T>) -> Option<T> {
        let mut inner = None;
        let mut around = Some(id);
        while let Some(id) = around {
            if let Some(list) = self.lists.get(&id) {
                // The parser numbers values in the order of the text.
                let place =
                    inner.and_then(|inner| list.items.binary_search_by_key(&inner, |item| item.id).ok());
                let found = beside(&list.items, place).find_map(|item| self.within(item.id, &says));
                if let Some(found) = found.or_else(|| says(list)) {
                    return Some(found);
                }
            }
            inner = Some(id);
            around = tree.node(id).parent;
        }
        None
    }

    /// Returns the first answer of the brackets inside a value, the outer ones first.
    fn within<'a, T>(&'a self, id: Id, says: &impl Fn(&'a List) -> Option<T>) -> Option<T> {
        let mut level = vec![id];
        while !level.is_empty() {
            let lists = || level.iter().filter_map(|id| self.lists.get(id));
            if let Some(found) = lists().find_map(says) {
                return Some(found);
            }
            level = lists().flat_map(|list| list.items.iter().map(|item| item.id)).collect();
        }
        None
    }
}

/// Returns the entries around the one at `place`, the nearest first. Without a place, starts from the end.
fn beside(items: &[Item], place: Option<usize>) -> impl Iterator<Item = &Item> {
    let place = place.unwrap_or(items.len());
    (1..=REACH).flat_map(move |distance| {
        let before = place.checked_sub(distance).and_then(|index| items.get(index));
        before.into_iter().chain(items.get(place + distance))
    })
}
