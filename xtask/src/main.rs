//! Development tasks: `cargo xtask test | bench`.
fn main() {}
