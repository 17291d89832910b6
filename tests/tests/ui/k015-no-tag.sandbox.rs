use koze::prelude::*;

#[sandbox(image = "docker.io/cloudflare/sandbox")]
pub struct ShellSandbox;

fn main() {}
