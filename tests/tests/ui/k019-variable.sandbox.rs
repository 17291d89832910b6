use koze::prelude::*;

#[sandbox(env_vars(A = "ä", NODE_ÄNV = "production"))]
pub struct ShellSandbox;

fn main() {}
