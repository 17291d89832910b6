use koze::prelude::*;

#[sandbox(image = "docker.io/cloudflare/sandbox:0.12.10", variant = "python")]
pub struct ShellSandbox;

fn main() {}
