use koze::prelude::*;

#[sandbox(colour = "red")]
pub struct ShellSandbox;

fn main() {}
