use koze::prelude::*;

#[sandbox(image = "./missing.Dockerfile")]
pub struct ShellSandbox;

fn main() {}
