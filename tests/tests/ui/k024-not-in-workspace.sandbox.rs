use koze::prelude::*;

#[sandbox(tools = ["workspace"], workspace(code(stateful = true), snapshot(bucket = "B")))]
pub struct ShellSandbox;

fn main() {}
