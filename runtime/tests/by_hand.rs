//! The attribute is sugar: what it writes can be written by hand. A user's strictest lints have nothing to say.
#![allow(unreachable_pub, reason = "a test is a program, which nothing else sees into")]
#![deny(missing_docs, warnings, clippy::all, clippy::pedantic)]

#[path = "sandboxes/code-interpreter.sandbox.rs"]
mod code_interpreter;

use code_interpreter::Interpreter;
use koze::SandboxClass;

/// What the attribute makes of `Interpreter`.
#[derive(Debug)]
pub struct ByHand;

impl SandboxClass for ByHand {
    const BINDING: &'static str = "CODE_INTERPRETER_SANDBOX";
    const CLASS: &'static str = "Interpreter";
    const CONTAINER: &'static str = "my-interpreter";
    const SOURCE: &'static str = "tests/sandboxes/code-interpreter.sandbox.rs";
}

fn constants<S: SandboxClass>(_: &S) -> [&'static str; 4] {
    [S::BINDING, S::CLASS, S::CONTAINER, S::SOURCE]
}

#[test]
fn the_attribute_matches_a_handwritten_implementation() {
    assert_eq!(constants(&Interpreter), constants(&ByHand));
}
