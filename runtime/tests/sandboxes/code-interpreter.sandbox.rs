use koze::prelude::*;

#[sandbox(name = "my-interpreter", sleep_after = "10m")]
pub struct Interpreter;
