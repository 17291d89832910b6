use koze::prelude::*;

#[sandbox(imgae = "x:1")]
pub struct ShellSandbox;

fn main() {}
