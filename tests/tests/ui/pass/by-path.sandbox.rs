//! A case that must compile, without a word.
#![deny(warnings, missing_docs)]

#[koze::sandbox(name = "by-its-path")]
pub struct PathSandbox;

fn main() {
    let _ = PathSandbox;
    assert_eq!(<PathSandbox as koze::SandboxClass>::CONTAINER, "by-its-path");
}
