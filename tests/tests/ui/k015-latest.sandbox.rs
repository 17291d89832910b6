use koze::prelude::*;

#[sandbox(image = "docker.io/cloudflare/sandbox:latest")]
pub struct ShellSandbox;

fn main() {}
