//! Collects the parts of a change to a text.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::layout::{Home, Layout};
use crate::list::{Habit, List};
use crate::source::{Source, Splices};
use crate::tree::{Id, Tree};

/// The parts of one change.
pub(super) struct Change<'a> {
    pub(super) layout: &'a Layout,
    pub(super) source: &'a Source,
    pub(super) tree: &'a Tree,
    pub(super) out: Splices,
    /// Removed keys with their values.
    pub(super) lines: Vec<Range<usize>>,
    /// Removed headers with their sections.
    pub(super) sections: Vec<Range<usize>>,
    /// Removed entries, by the value whose brackets contain them.
    pub(super) gone: BTreeMap<Id, BTreeSet<Id>>,
    /// New entries, by the value whose brackets contain them.
    pub(super) come: BTreeMap<Id, Vec<String>>,
    /// The position of the root's first lines, if any are added.
    pub(super) heading: Option<usize>,
}

impl<'a> Change<'a> {
    pub(super) fn new(layout: &'a Layout, source: &'a Source, tree: &'a Tree) -> Self {
        Self {
            layout,
            source,
            tree,
            out: Splices::default(),
            lines: Vec::new(),
            sections: Vec::new(),
            gone: BTreeMap::new(),
            come: BTreeMap::new(),
            heading: None,
        }
    }
}

impl Change<'_> {
    /// Edits the brackets whose entries change.
    pub(super) fn lists(&mut self) {
        let changed: BTreeSet<Id> = self.gone.keys().chain(self.come.keys()).copied().collect();
        for id in changed {
            let list = &self.layout.lists[&id];
            let gone = self.gone.remove(&id).unwrap_or_default();
            let come = self.come.remove(&id).unwrap_or_default();
            let array = self.source.text[..list.open].ends_with('[');
            let unit = self.nearest(id, |list| list.unit(self.source)).unwrap_or("  ");
            let trailing = |list: &List| {
                let array = self.source.text[..list.open].ends_with('[');
                list.trailing(self.source).filter(|_| array)
            };
            let trailing = array && self.nearest(id, trailing).unwrap_or_default();
            // TOML 1.0 requires inline tables to stay on one line.
            let habit = Habit { unit, trailing, open: array && !self.in_braces(id) };
            let shape = list.shape(self.source, |item| !gone.contains(&item.id), &habit);
            list.edit(self.source, &shape, |id| gone.contains(&id), &come, &mut self.out);
        }
    }

    /// Returns the answer of the nearest brackets that have one, starting with those of the same table.
    fn nearest<T>(&self, id: Id, says: impl Fn(&List) -> Option<T>) -> Option<T> {
        let (parent, place) = (self.tree.node(id).parent, self.layout.lists[&id].open);
        let answers = self.layout.lists.iter().filter_map(|(other, list)| {
            let far = (self.tree.node(*other).parent != parent, list.open.abs_diff(place));
            Some((far, says(list)?))
        });
        answers.min_by_key(|(far, _)| *far).map(|(_, answer)| answer)
    }

    /// Returns whether a value is inside an inline table.
    fn in_braces(&self, id: Id) -> bool {
        let mut outer = self.layout.homes[id];
        while let Home::Item(list) = outer {
            if self.source.text[..self.layout.lists[&list].open].ends_with('{') {
                return true;
            }
            outer = self.layout.homes[list];
        }
        false
    }
}
