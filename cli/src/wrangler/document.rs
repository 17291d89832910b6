//! A wrangler configuration file that is edited in place.
//!
//! The file is parsed once. From that one parse every edit becomes a splice of the text, so a byte outside an edited
//! entry cannot move: comments, order, indentation, line ends and a byte order mark are never printed again, only copied.

use std::borrow::Cow;
use std::ops::Range;

use serde_json::Value;

use super::{jsonc, toml};
use source::Source;
use tree::Tree;

pub(crate) mod list;
pub(crate) mod plan;
pub(crate) mod source;
#[cfg(test)]
mod tests;
pub(crate) mod tree;

/// The syntax of a configuration file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// JSON with comments and trailing commas, which is what wrangler reads from `wrangler.json` and `wrangler.jsonc`.
    Jsonc,
    /// TOML, `wrangler.toml`.
    Toml,
}

/// One step from a value to a value inside it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// The property of this name.
    Key(String),
    /// The array element at this position, counted from zero.
    Index(usize),
}

impl From<&str> for Step {
    fn from(key: &str) -> Self {
        Self::Key(key.to_owned())
    }
}

impl From<String> for Step {
    fn from(key: String) -> Self {
        Self::Key(key)
    }
}

impl From<usize> for Step {
    fn from(index: usize) -> Self {
        Self::Index(index)
    }
}

/// The way from the root of a document to a value; an empty path is the root itself.
pub type Path = Vec<Step>;

/// Builds a [`Path`] from keys and indices: `path!["containers", 0, "image"]`.
#[macro_export]
macro_rules! path {
    ($($step:expr),* $(,)?) => {
        <[$crate::wrangler::document::Step]>::into_vec(::std::boxed::Box::new([
            $($crate::wrangler::document::Step::from($step)),*
        ]))
    };
}
pub use crate::path;

/// A change to one place of a document. Its path names a place in the document as it was parsed.
#[derive(Clone, Debug, PartialEq)]
pub enum Edit {
    /// Sets the property or element at `path`: replaces its value, or inserts the property at the end of its object.
    /// Missing parent objects are made. A value equal to the present one changes nothing.
    Set {
        /// Where; an index must exist.
        path: Path,
        /// The new value. In TOML, which has no null, a null is left out.
        value: Value,
    },
    /// Appends to the array at `path`; a missing array (and missing parent objects) are made, and a null is as good as
    /// a missing array.
    /// Several pushes to one array keep their order.
    Push {
        /// The array.
        path: Path,
        /// The new element.
        value: Value,
    },
    /// Removes the property or element, and nothing where there is none.
    Remove {
        /// Where; not the root.
        path: Path,
    },
}

/// Why a text is not a document.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct SyntaxError {
    /// The offending bytes of the text as it was given, a byte order mark included. May be empty at the end of the text.
    pub range: Range<usize>,
    /// What is wrong, in plain words, without the place.
    pub message: String,
}

/// A parsed configuration file.
#[derive(Debug)]
pub struct Document {
    source: Source,
    tree: Tree,
    value: Value,
    layout: Layout,
}

/// What a format's editor has to know beside the tree.
#[derive(Debug)]
enum Layout {
    Jsonc(jsonc::Layout),
    Toml(toml::Layout),
}

/// What a format's parser returns.
pub(crate) struct Parsed<L> {
    pub(crate) source: Source,
    pub(crate) tree: Tree,
    pub(crate) value: Value,
    pub(crate) layout: L,
}

impl<L> Parsed<L> {
    fn into_document(self, layout: impl FnOnce(L) -> Layout) -> Document {
        Document { source: self.source, tree: self.tree, value: self.value, layout: layout(self.layout) }
    }
}

impl Document {
    /// Parses `text`.
    ///
    /// # Errors
    ///
    /// The first [`SyntaxError`]. An empty text is one in JSONC; in TOML it is an empty table.
    pub fn parse(format: Format, text: impl Into<String>) -> Result<Self, SyntaxError> {
        let text = text.into();
        match format {
            Format::Jsonc => jsonc::parse(text).map(|parsed| parsed.into_document(Layout::Jsonc)),
            Format::Toml => toml::parse(text).map(|parsed| parsed.into_document(Layout::Toml)),
        }
    }

    /// The syntax it is written in.
    pub fn format(&self) -> Format {
        match self.layout {
            Layout::Jsonc(_) => Format::Jsonc,
            Layout::Toml(_) => Format::Toml,
        }
    }

    /// The text as it was given.
    pub fn text(&self) -> &str {
        &self.source.text
    }

    /// The whole document as plain data, in the order of the file. Of two equal keys the last one counts.
    /// TOML's dates and times, and its numbers that JSON lacks (`inf`, `nan`), are strings.
    pub fn value(&self) -> &Value {
        &self.value
    }

    /// The bytes of the value at `path`, `None` where there is no such value.
    ///
    /// For a TOML table with a header of its own this is the header, for an array of tables all from the first
    /// header to the last, and for a table that only longer keys imply, its name in the first of those.
    pub fn range(&self, path: &[Step]) -> Option<Range<usize>> {
        self.tree.find(path).map(|id| self.tree.node(id).range.clone())
    }

    /// The bytes of the key of the property at `path`, quotes included. `None` where there is no such property,
    /// and for an array element.
    pub fn key_range(&self, path: &[Step]) -> Option<Range<usize>> {
        self.tree.find(path).and_then(|id| self.tree.node(id).key.clone())
    }

    /// The text after `edits`. They take effect together: all paths are those of this document.
    ///
    /// Of several edits to one place the last one counts, and an edit inside a value that another edit replaces or
    /// removes has no effect.
    ///
    /// # Panics
    ///
    /// In debug builds, when an edit does not fit [`Document::value`]: a path that crosses a scalar or an index that
    /// is not there, a push onto what is no array, the removal of the root. Other builds ignore such an edit.
    pub fn apply(&self, edits: &[Edit]) -> String {
        let edits = self.without_nulls(edits);
        let plan = plan::Plan::new(&self.tree, &self.value, &edits);
        let splices = match &self.layout {
            Layout::Jsonc(layout) => jsonc::splices(layout, &self.source, &self.tree, &plan),
            Layout::Toml(layout) => toml::splices(layout, &self.source, &self.tree, &plan),
        };
        splices.apply(&self.source.text)
    }

    /// The edits, with arrays set where there is a null to push to.
    fn without_nulls<'e>(&self, edits: &'e [Edit]) -> Cow<'e, [Edit]> {
        let onto_null = |edit: &Edit| match edit {
            Edit::Push { path, .. } => plan::at(&self.value, path).is_some_and(Value::is_null),
            Edit::Set { .. } | Edit::Remove { .. } => false,
        };
        if !edits.iter().any(onto_null) {
            return Cow::Borrowed(edits);
        }
        let mut all: Vec<Edit> = Vec::new();
        for edit in edits {
            let Edit::Push { path, value } = edit else {
                all.push(edit.clone());
                continue;
            };
            let made = all.iter_mut().find_map(|other| match other {
                Edit::Set { path: there, value: Value::Array(list) } if there == path => Some(list),
                _ => None,
            });
            match made {
                _ if !onto_null(edit) => all.push(edit.clone()),
                Some(list) => list.push(value.clone()),
                None => all.push(Edit::Set { path: path.clone(), value: Value::Array(vec![value.clone()]) }),
            }
        }
        Cow::Owned(all)
    }
}
