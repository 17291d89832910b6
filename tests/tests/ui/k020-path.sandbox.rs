use koze::prelude::*;

#[sandbox(koze::image = "x:1")]
pub struct ShellSandbox;

fn main() {}
