use koze::prelude::*;

#[sandbox]
struct PrivateSandbox;
