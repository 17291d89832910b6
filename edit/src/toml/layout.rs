//! Records how each value of a text is written.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::list::List;
use crate::tree::Id;

/// How each value of a text is written.
#[derive(Debug)]
pub(crate) struct Layout {
    /// One entry for each value.
    pub(super) homes: Vec<Home>,
    pub(super) sections: BTreeMap<Id, Section>,
    pub(super) lists: BTreeMap<Id, List>,
    /// The top-level table whose sections stay below all others.
    pub(super) last: Option<String>,
}

impl Layout {
    /// Sets the top-level table whose sections stay below all others.
    pub(crate) fn keep_last(&mut self, table: String) {
        self.last = Some(table);
    }
}

/// How a value is written.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Home {
    /// A table with a header, an element of an array of tables, or the root.
    Section,
    /// A value after a key, which starts here.
    Line(usize),
    /// An entry in the brackets of this value.
    Item(Id),
    /// A table made by dotted keys in this section or in the braces of this value.
    Dotted(Id),
    /// A table made by the headers of its subtables, or an array of tables.
    Implied,
}

/// A header and the lines below it.
#[derive(Debug, Default)]
pub(super) struct Section {
    /// The header; `None` for the root.
    pub(super) header: Option<Range<usize>>,
    /// The last key with its value.
    pub(super) last: Option<Range<usize>>,
}

impl Section {
    /// Returns the range of the header and all values. The root's may be empty.
    pub(super) fn range(&self) -> Range<usize> {
        let first = self.header.as_ref().or(self.last.as_ref()).map_or(0, |range| range.start);
        let end = self.last.as_ref().or(self.header.as_ref()).map_or(0, |range| range.end);
        first..end
    }
}
