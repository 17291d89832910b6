//! Edits of any text that is JSONC.
#![no_main]

#[path = "../../cli/tests/preserve/edits.rs"]
mod edits;
#[path = "../../cli/tests/preserve/input.rs"]
mod input;
#[path = "../../cli/tests/preserve/property.rs"]
mod property;

use koze_cli::wrangler::document::Format;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| input::check(Format::Jsonc, bytes));
