use koze::prelude::*;

#[sandbox(internet = true, internet = false)]
pub struct ShellSandbox;

fn main() {}
