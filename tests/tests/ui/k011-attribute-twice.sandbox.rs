use koze::prelude::*;

#[sandbox]
#[sandbox(variant = "python")]
pub struct ShellSandbox;

fn main() {}
