use koze::prelude::*;

#[sandbox(instance_type = "lite", instance(vcpu = 1))]
pub struct ShellSandbox;

fn main() {}
