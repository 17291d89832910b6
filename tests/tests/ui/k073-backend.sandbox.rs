use koze::prelude::*;

#[sandbox(backend = "native", variant = "python", entrypoint = [])]
pub struct ShellSandbox;

fn main() {}
