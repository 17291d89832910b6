use koze::prelude::*;

#[sandbox]
pub fn shell_sandbox() {}

fn main() {}
