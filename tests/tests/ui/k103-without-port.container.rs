use koze::prelude::*;

#[container(image = "nginx:1.27")]
pub struct BlogContainer;

fn main() {}
