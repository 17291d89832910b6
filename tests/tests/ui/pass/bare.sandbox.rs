//! A case that must compile, without a word.
#![deny(warnings, missing_docs)]

use koze::prelude::*;

#[sandbox]
pub struct ShellSandbox;

fn main() {
    let _ = ShellSandbox;
    assert_eq!(ShellSandbox::BINDING, "BARE_SANDBOX");
    assert_eq!(ShellSandbox::CLASS, "ShellSandbox");
    assert_eq!(ShellSandbox::CONTAINER, "bare-sandbox");
    assert!(ShellSandbox::SOURCE.ends_with("tests/ui/pass/bare.sandbox.rs"));
}
