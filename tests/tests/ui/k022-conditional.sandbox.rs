use koze::prelude::*;

#[sandbox]
#[cfg(unix)]
pub struct ShellSandbox;

fn main() {}
