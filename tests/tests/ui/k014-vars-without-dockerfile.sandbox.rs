use koze::prelude::*;

#[sandbox(image = "me/ubuntu:24.04", image_vars(A = "1"), image_build_context = "..")]
pub struct ShellSandbox;

fn main() {}
