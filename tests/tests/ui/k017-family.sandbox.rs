use koze::prelude::*;

#[sandbox(tools = ["agent", "workspace"])]
pub struct ShellSandbox;

fn main() {}
