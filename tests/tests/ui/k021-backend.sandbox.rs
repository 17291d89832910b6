use koze::prelude::*;

#[sandbox(backend = "docker")]
pub struct ShellSandbox;

fn main() {}
