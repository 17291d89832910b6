//! The `koze` program.

use std::process::ExitCode;

use clap::Parser as _;
use koze_cli::args::Cli;
use koze_cli::{commands, platform};

/// The stack size. Deeply nested Rust source overflows the main thread's stack.
const STACK: usize = 256 * 1024 * 1024;

fn main() -> ExitCode {
    // Call this first: a sandbox is started by running this program again.
    if let Some(code) = platform::init() {
        return code;
    }
    let cli = Cli::parse();
    stacker::grow(STACK, || commands::run(&cli))
}
