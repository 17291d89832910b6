use koze::prelude::*;

#[sandbox(
    allowed_hosts = ["api.example.com", "get api.example.org/v1"],
    env_vars(TAKEN = "1"),
    credentials(
        API_KEY(host = "https://api.example.com"),
        OTHER(host = "maps.example.com", sigv4(region = "EU", service = "s3")),
        TAKEN(host = "api.example.com"),
    ),
)]
pub struct ShellSandbox;

fn main() {}
