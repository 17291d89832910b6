use koze::prelude::*;

#[sandbox]
pub struct ShellSandbox;

#[sandbox]
pub struct PythonSandbox;

fn main() {}
