//! The `koze` program.

use std::process::ExitCode;

use clap::Parser as _;
use koze_cli::args::Cli;
use koze_cli::commands;

fn main() -> ExitCode {
    commands::run(&Cli::parse())
}
