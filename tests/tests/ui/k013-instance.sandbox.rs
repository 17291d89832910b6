use koze::prelude::*;

#[sandbox(instance(vcpu = 0, memory_mib = 0, disk_mb = -1))]
pub struct ShellSandbox;

fn main() {}
