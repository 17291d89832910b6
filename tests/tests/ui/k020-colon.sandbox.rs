use koze::prelude::*;

#[sandbox(image: "x:1")]
pub struct ShellSandbox;

fn main() {}
