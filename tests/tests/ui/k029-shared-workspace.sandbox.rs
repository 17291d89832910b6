use koze::prelude::*;

#[sandbox(tools = ["workspace"], workspace(name = "box", id = "common"))]
pub struct ShellSandbox;

fn main() {}
