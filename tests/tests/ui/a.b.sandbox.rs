use koze::prelude::*;

#[sandbox]
pub struct ShellSandbox;

fn main() {}
