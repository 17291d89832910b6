use koze::prelude::*;

// The keys that exclude some of those in `every-key.sandbox.rs`; a deprecated value is a warning of the command line.
#[sandbox(variant = "python", instance(vcpu = 0.5, memory_mib = 6144, disk_mb = 12000), rollout_step_percentage = 25)]
pub struct SizedSandbox;
