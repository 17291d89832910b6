use koze::prelude::*;

#[sandbox]
pub struct ShellSandbox<T>(T);

fn main() {}
