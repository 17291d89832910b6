use koze::prelude::*;

/// What this sandbox is for, in its own words.
#[sandbox(variant = "python")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DocumentedSandbox;
