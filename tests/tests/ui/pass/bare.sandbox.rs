use koze::prelude::*;

#[sandbox]
pub struct BareSandbox;
