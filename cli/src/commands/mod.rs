//! One module for each command.

mod add;
mod build;
mod completions;
mod doctor;
mod drafted;
mod explain;
mod init;
mod list;
mod migrate;
mod new;
mod project;
mod remove;
mod rename;
mod runtime;
mod show;
mod tools;
mod watch;

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
        Command::Build(args) if args.watch => watch::run(args),
        Command::Build(args) => build::run(args),
        Command::New(args) => new::run(args),
        Command::Init(args) => init::run(args),
        Command::Add(args) => add::run(args),
        Command::List(args) => list::run(args),
        Command::Rename(args) => rename::run(args),
        Command::Remove(args) => remove::run(args),
        Command::Migrate(args) => migrate::run(args),
        Command::Tools(args) => tools::run(args),
        Command::Doctor(args) => doctor::run(args),
        Command::Explain(args) => explain::run(args),
        Command::Completions(args) => completions::run(args),
    }
}
