use koze::prelude::*;

#[sandbox(
    image = "./every-key.Dockerfile",
    instance_type = "standard-1",
    max_instances = 10,
    name = "every-key",
    sleep_after = "10m",
    env_vars(NODE_ENV = "production", _type = "shell"),
    internet = true,
    allowed_hosts = ["api.example.com", "*.example.org"],
    denied_hosts = ["*.example.com"],
    tools = ["agent"],
    default,
    backend = "sdk",
    renamed_from = "FormerSandbox",
    image_build_context = "..",
    image_vars(NODE_VERSION = "22"),
    constraints(regions = ["WEUR", "EEUR"], jurisdiction = "eu"),
    rollout_step_percentage = [10, 100],
    rollout_active_grace_period = 60,
    observability(enabled = true, logs(enabled = true)),
)]
pub struct EverySandbox;
