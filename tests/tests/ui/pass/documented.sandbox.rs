//! A case that must compile, without a word.
#![deny(warnings, missing_docs)]

use koze::prelude::*;

/// What this sandbox is for, in its own words.
#[sandbox(variant = "python")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DocumentedSandbox;

fn main() {
    assert_eq!(DocumentedSandbox, DocumentedSandbox.clone());
}
