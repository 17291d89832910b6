//! The result of parsing a format.

use serde_json::Value;

use crate::source::Source;
use crate::tree::Tree;

/// A parsed text. `L` is the data that the format's editor needs in addition to the tree.
pub(crate) struct Parsed<L> {
    pub(crate) source: Source,
    pub(crate) tree: Tree,
    pub(crate) value: Value,
    pub(crate) layout: L,
}
