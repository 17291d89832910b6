use koze::prelude::*;

#[sandbox(tools = ["workspace"], workspace(name = "box", code(stateful = true), snapshot(bucket = "B")))]
pub struct ShellSandbox;

fn main() {}
