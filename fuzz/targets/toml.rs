//! Applies arbitrary edits to arbitrary TOML texts.
#![no_main]

#[path = "../../edit/tests/preserve/compare.rs"]
mod compare;
#[path = "../../edit/tests/preserve/edits.rs"]
mod edits;
#[path = "../../edit/tests/preserve/input.rs"]
mod input;
#[path = "../../edit/tests/preserve/property.rs"]
mod property;

use koze_edit::Format;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| input::check(Format::Toml, bytes));
