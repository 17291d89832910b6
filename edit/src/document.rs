//! A document: parsed text that can be read as plain data and edited in place.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::OnceLock;

use serde_json::Value;

use crate::edit::{Edit, Step};
use crate::error::SyntaxError;
use crate::parsed::Parsed;
use crate::source::Source;
use crate::tree::Tree;
use crate::{jsonc, plan, toml};

/// The syntax of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// JSON with comments and trailing commas.
    Jsonc,
    /// TOML.
    Toml,
}

/// A parsed JSONC or TOML text.
///
/// See the [crate documentation](crate) for an example.
#[derive(Debug)]
pub struct Document {
    format: Format,
    source: Source,
    value: Value,
    /// Most documents are only read. For JSONC, this is computed when an edit or a range needs it.
    structure: OnceLock<Structure>,
}

/// The values of a document and how they are written.
#[derive(Debug)]
struct Structure {
    tree: Tree,
    layout: Layout,
}

/// What each format's editor needs beside the tree.
#[derive(Debug)]
enum Layout {
    Jsonc(jsonc::Layout),
    Toml(toml::Layout),
}

impl Document {
    /// Parses `text`.
    ///
    /// # Errors
    ///
    /// Returns the first [`SyntaxError`]. An empty text is a syntax error in JSONC, and an empty table in TOML.
    pub fn parse(format: Format, text: impl Into<String>) -> Result<Self, SyntaxError> {
        let text = text.into();
        match format {
            Format::Jsonc => {
                let (source, value) = jsonc::read(text)?;
                Ok(Self { format, source, value, structure: OnceLock::new() })
            }
            Format::Toml => {
                let Parsed { source, tree, value, layout } = toml::parse(text)?;
                let structure = Structure { tree, layout: Layout::Toml(layout) };
                Ok(Self { format, source, value, structure: structure.into() })
            }
        }
    }

    fn structure(&self) -> &Structure {
        self.structure.get_or_init(|| {
            let (tree, layout) = jsonc::structure(&self.source);
            Structure { tree, layout: Layout::Jsonc(layout) }
        })
    }

    /// Keeps the sections of the top-level table `table` below those of all others.
    ///
    /// In TOML, a new section usually goes to the end of the text. This makes [`Document::apply`] insert it above the
    /// first section of `table` instead. Use it for a table of overrides, which is best read after what it overrides.
    /// It has no effect on JSONC.
    ///
    /// ```
    /// use koze_edit::{Document, Edit, Format, path};
    /// use serde_json::json;
    ///
    /// let text = "name = \"shop\"\n\n[profile.test]\nname = \"shop-test\"\n";
    /// let document = Document::parse(Format::Toml, text)?.keep_last("profile");
    /// let edited = document.apply(&[Edit::Set { path: path!["limits"], value: json!({ "cpu": 2 }) }]);
    /// assert_eq!(
    ///     edited,
    ///     "name = \"shop\"\n\n[limits]\ncpu = 2\n\n[profile.test]\nname = \"shop-test\"\n"
    /// );
    /// # Ok::<(), koze_edit::SyntaxError>(())
    /// ```
    #[must_use]
    pub fn keep_last(mut self, table: impl Into<String>) -> Self {
        if let Some(Structure { layout: Layout::Toml(layout), .. }) = self.structure.get_mut() {
            layout.keep_last(table.into());
        }
        self
    }

    /// Returns the syntax of the document.
    pub fn format(&self) -> Format {
        self.format
    }

    /// Returns the text as it was given.
    pub fn text(&self) -> &str {
        &self.source.text
    }

    /// Returns the whole document as plain data, in the order of the text.
    ///
    /// The last one of duplicate keys wins. TOML's dates and times, and its numbers that JSON lacks (`inf`, `nan`), are
    /// strings.
    pub fn value(&self) -> &Value {
        &self.value
    }

    /// Returns the byte range of the value at `path`, or `None` if there is no such value.
    ///
    /// For a TOML table with a header, this is the header. For an array of tables, it extends from the first header to
    /// the last. For a table that only dotted keys or longer headers imply, it is the table's name in the first of them.
    pub fn range(&self, path: &[Step]) -> Option<Range<usize>> {
        let tree = &self.structure().tree;
        tree.find(path).map(|id| tree.node(id).range.clone())
    }

    /// Returns the byte range of the key of the property at `path`, quotes included, or `None` if there is no such
    /// property. An array element has no key.
    pub fn key_range(&self, path: &[Step]) -> Option<Range<usize>> {
        let tree = &self.structure().tree;
        tree.find(path).and_then(|id| tree.node(id).key.clone())
    }

    /// Applies `edits` and returns the new text. All paths refer to this document, which does not change.
    ///
    /// If several edits set the same place, the last one wins. An edit inside a value that another edit replaces or
    /// removes has no effect.
    ///
    /// # Panics
    ///
    /// Panics in debug builds if an edit does not fit [`Document::value`]: its path crosses a scalar or an index that
    /// does not exist, it pushes to a value that is not an array, or it removes the root. Release builds ignore such an
    /// edit.
    pub fn apply(&self, edits: &[Edit]) -> String {
        let edits = self.without_nulls(edits);
        let Structure { tree, layout } = self.structure();
        let plan = plan::Plan::new(tree, &self.value, &edits);
        let splices = match layout {
            Layout::Jsonc(layout) => jsonc::splices(layout, &self.source, tree, &plan),
            Layout::Toml(layout) => toml::splices(layout, &self.source, tree, &plan),
        };
        splices.apply(&self.source.text)
    }

    /// Replaces each push to a null by an edit that sets an array.
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
