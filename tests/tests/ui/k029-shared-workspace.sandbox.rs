use koze::prelude::*;

#[sandbox(tools = ["workspace"], workspace(id = "common"))]
pub struct ShellSandbox;

fn main() {}
