use koze::prelude::*;

#[sandbox]
#[allow(non_camel_case_types)]
pub struct r#type;

fn main() {}
