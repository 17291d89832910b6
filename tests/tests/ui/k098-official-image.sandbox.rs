use koze::prelude::*;

#[sandbox(image = "python:3.12-slim")]
pub struct ShellSandbox;

fn main() {}
