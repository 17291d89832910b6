//! A case that must compile, without a word.
#![deny(warnings, missing_docs)]

use koze::prelude::*;

#[sandbox]
struct PrivateSandbox;

mod elsewhere {
    // The generated code names the struct from another module.
    pub(crate) use super::PrivateSandbox;
}

fn main() {
    let _ = elsewhere::PrivateSandbox;
}
