//! The TOML side of [`super::document`].
//!
//! `toml_edit` only parses: what it would print has other line ends and no byte order mark, so the text is spliced here.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::document::list::{Habit, List};
use super::document::plan::{Fate, Growth, New, Plan};
use super::document::source::{Source, Splices};
use super::document::tree::{Id, Tree};

mod grow;
mod parse;
mod remove;
mod render;

pub(super) use parse::parse;

/// How the values of a text are written.
#[derive(Debug)]
pub(crate) struct Layout {
    /// One for each value.
    homes: Vec<Home>,
    sections: BTreeMap<Id, Section>,
    lists: BTreeMap<Id, List>,
}

/// How a value is written.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Home {
    /// A table with a header, an element of an array of tables, or the root.
    Section,
    /// A value after a key, from here on.
    Line(usize),
    /// An entry in the brackets of this value.
    Item(Id),
    /// A table made by keys with dots, which stand in this section or in the braces of this value.
    Dotted(Id),
    /// A table made by the headers of its sub-tables, or an array of tables.
    Implied,
}

/// A header and the lines below it.
#[derive(Debug, Default)]
struct Section {
    /// None at the root.
    header: Option<Range<usize>>,
    /// The last key with its value.
    last: Option<Range<usize>>,
}

impl Section {
    /// The header and all values. The root's may be empty.
    fn range(&self) -> Range<usize> {
        let first = self.header.as_ref().or(self.last.as_ref()).map_or(0, |range| range.start);
        let end = self.last.as_ref().or(self.header.as_ref()).map_or(0, |range| range.end);
        first..end
    }
}

/// The parts of one change.
struct Change<'a> {
    layout: &'a Layout,
    source: &'a Source,
    tree: &'a Tree,
    out: Splices,
    /// Keys with their values that go.
    lines: Vec<Range<usize>>,
    /// Headers with what is below them that go.
    sections: Vec<Range<usize>>,
    /// Entries that go, by the value whose brackets they stand in.
    gone: BTreeMap<Id, BTreeSet<Id>>,
    /// Texts of entries that come, likewise.
    come: BTreeMap<Id, Vec<String>>,
    /// Where the first lines of the root come, if any do.
    heading: Option<usize>,
}

/// What the plan changes in the text.
pub(super) fn splices(layout: &Layout, source: &Source, tree: &Tree, plan: &Plan) -> Splices {
    let mut change = Change {
        layout,
        source,
        tree,
        out: Splices::default(),
        lines: Vec::new(),
        sections: Vec::new(),
        gone: BTreeMap::new(),
        come: BTreeMap::new(),
        heading: None,
    };
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
    // Inner tables first: what grows at one place must stand before what an outer table gets there.
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

impl Change<'_> {
    /// Edits the brackets whose entries come or go.
    fn lists(&mut self) {
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
            // Braces have to stay on one line in TOML 1.0.
            let habit = Habit { unit, trailing, open: array && !self.in_braces(id) };
            let shape = list.shape(self.source, |item| !gone.contains(&item.id), &habit);
            list.edit(self.source, &shape, |id| gone.contains(&id), &come, &mut self.out);
        }
    }

    /// What the nearest brackets say, of those that say something: first come those of the same table.
    fn nearest<T>(&self, id: Id, says: impl Fn(&List) -> Option<T>) -> Option<T> {
        let (parent, place) = (self.tree.node(id).parent, self.layout.lists[&id].open);
        let said = self.layout.lists.iter().filter_map(|(other, list)| {
            let far = (self.tree.node(*other).parent != parent, list.open.abs_diff(place));
            Some((far, says(list)?))
        });
        said.min_by_key(|(far, _)| *far).map(|(_, said)| said)
    }

    /// Whether a value stands inside the braces of another.
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
