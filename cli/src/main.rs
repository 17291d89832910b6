//! The `koze` program.

use std::process::ExitCode;

use clap::Parser as _;
use koze_cli::args::Cli;
use koze_cli::commands;

/// Rust source may be nested deeper than the main thread's stack reaches.
const STACK: usize = 256 * 1024 * 1024;

fn main() -> ExitCode {
    // First of all: a sandbox is started by running this program once more.
    #[cfg(target_os = "linux")]
    koze_local::init();
    #[cfg(target_os = "linux")]
    if let Some(code) = koze_local::prove::init() {
        return code;
    }
    let cli = Cli::parse();
    stacker::grow(STACK, || commands::run(&cli))
}
