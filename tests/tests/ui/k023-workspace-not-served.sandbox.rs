use koze::prelude::*;

#[sandbox(workspace(name = "box"))]
pub struct ShellSandbox;

fn main() {}
