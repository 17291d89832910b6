//! Sends arbitrary bytes to the guest of a container.
#![no_main]

#[path = "../../guest/tests/frames/play.rs"]
mod play;

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| play::check(bytes));
