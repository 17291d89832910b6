//! One module for each command.

mod build;
mod explain;
mod list;
mod new;
mod remove;
mod show;

use std::process::ExitCode;

use clap::ColorChoice;

use crate::args::{Cli, Command};

/// Runs a command: 0 is done or nothing to do, 1 errors or drift.
pub fn run(cli: &Cli) -> ExitCode {
    match cli.color {
        ColorChoice::Auto => anstream::ColorChoice::Auto,
        ColorChoice::Always => anstream::ColorChoice::Always,
        ColorChoice::Never => anstream::ColorChoice::Never,
    }
    .write_global();
    match &cli.command {
        Command::Build(args) => build::run(args),
        Command::New(args) => new::run(args),
        Command::List(args) => list::run(args),
        Command::Explain(args) => explain::run(args),
        Command::Remove(args) => remove::run(args),
    }
}
