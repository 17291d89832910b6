use koze::prelude::*;

#[sandbox(
    image = concat!("x", ":1"),
    variant = VARIANT,
    instance_type = 1,
    instance = "lite",
    max_instances = "3",
    name = SHELL,
    sleep_after = 10,
    env_vars = "A=1",
    internet = "yes",
    allowed_hosts = "example.org",
    denied_hosts = [1],
    tools = "agent",
    default = true,
    backend = sdk,
    renamed_from = OldSandbox,
    image_build_context = 1,
    image_vars(A = 1),
    constraints = "eu",
    rollout_step_percentage = "all",
    rollout_active_grace_period = 1.5,
    observability = true,
)]
pub struct ShellSandbox;

fn main() {}
