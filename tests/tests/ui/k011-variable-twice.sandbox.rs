use koze::prelude::*;

#[sandbox(env_vars(A = "1", A = "2"))]
pub struct ShellSandbox;

fn main() {}
