use koze::prelude::*;

#[sandbox(backend = "native")]
pub struct ShellSandbox;

fn main() {}
