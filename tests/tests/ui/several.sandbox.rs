use koze::prelude::*;

#[sandbox(imgae = "x:1", max_instances = 0, variant = "python", image = "x")]
pub struct Env<T>(T);

fn main() {}
