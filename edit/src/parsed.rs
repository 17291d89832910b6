//! What a format's parser hands to the document.

use serde_json::Value;

use crate::source::Source;
use crate::tree::Tree;

/// A parsed text. `L` is what the format's editor needs beside the tree.
pub(crate) struct Parsed<L> {
    pub(crate) source: Source,
    pub(crate) tree: Tree,
    pub(crate) value: Value,
    pub(crate) layout: L,
}
