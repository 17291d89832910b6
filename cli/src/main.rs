//! The `koze` program.

use std::process::ExitCode;

use clap::Parser as _;
use koze_cli::args::Cli;
use koze_cli::commands;

/// Rust source may be nested deeper than the main thread's stack reaches.
const STACK: usize = 512 * 1024 * 1024;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let work = std::thread::Builder::new().stack_size(STACK).spawn(move || commands::run(&cli));
    // A panic has told its story on standard error already; 101 is the code that Rust gives one.
    work.map_or(ExitCode::FAILURE, |work| work.join().unwrap_or(ExitCode::from(101)))
}
