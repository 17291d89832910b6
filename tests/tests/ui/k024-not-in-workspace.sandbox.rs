use koze::prelude::*;

#[sandbox(tools = ["workspace"], workspace(name = "box", snapshot(bucket = "a-b"), hostname = "example.org"))]
pub struct ShellSandbox;

fn main() {}
