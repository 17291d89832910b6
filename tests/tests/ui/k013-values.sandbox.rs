use koze::prelude::*;

#[sandbox(
    variant = "ruby",
    instance_type = "huge",
    max_instances = 0,
    name = "Shell Sandbox!",
    sleep_after = "1d",
    allowed_hosts = ["https://example.org"],
    denied_hosts = ["a.example", "a.example"],
    tools = ["browser"],
    backend = "docker",
    renamed_from = "not a class",
    image_build_context = "/abs",
    constraints(regions = ["MOON"], jurisdiction = "mars"),
    rollout_step_percentage = [100, 10],
    rollout_active_grace_period = -1,
    observability(enabled = true, logs(enabled = false)),
)]
pub struct ShellSandbox;

fn main() {}
