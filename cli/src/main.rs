//! The `koze` program.

use std::process::ExitCode;

use clap::Parser as _;
use koze_cli::args::{self, Cli};
use koze_cli::{commands, platform};

/// The stack size. Deeply nested Rust source overflows the main thread's stack.
const STACK: usize = 256 * 1024 * 1024;

fn main() -> ExitCode {
    // Call this first: a sandbox is started by running this program again.
    if let Some(code) = platform::init() {
        return code;
    }
    let cli = Cli::try_parse().unwrap_or_else(|error| args::only_safe_tips(error).exit());
    stacker::grow(STACK, || commands::run(&cli))
}
