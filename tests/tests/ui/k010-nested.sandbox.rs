use koze::prelude::*;

#[sandbox(instance(vcpus = 1))]
pub struct ShellSandbox;

fn main() {}
