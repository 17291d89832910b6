use koze::prelude::*;

#[sandbox]
pub struct Sandbox;

fn main() {}
