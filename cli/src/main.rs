//! The `koze` program.

use std::process::ExitCode;

use clap::Parser as _;
use koze_cli::args::Cli;
use koze_cli::commands;

/// The stack size. Deeply nested Rust source overflows the main thread's stack.
const STACK: usize = 256 * 1024 * 1024;

fn main() -> ExitCode {
    // Call this first: a sandbox is started by running this program again.
    #[cfg(target_os = "linux")]
    koze_local::init();
    #[cfg(target_os = "linux")]
    if let Some(code) = koze_local::prove::init() {
        return code;
    }
    let cli = Cli::parse();
    stacker::grow(STACK, || commands::run(&cli))
}
