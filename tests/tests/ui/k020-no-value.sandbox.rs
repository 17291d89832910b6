use koze::prelude::*;

#[sandbox(internet =)]
pub struct ShellSandbox;

fn main() {}
