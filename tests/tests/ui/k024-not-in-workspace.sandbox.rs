use koze::prelude::*;

#[sandbox(tools = ["workspace"], workspace(name = "box", snapshot_dir = "/a", snapshot(bucket = "B")))]
pub struct ShellSandbox;

fn main() {}
