//! One module for each command.

mod add;
mod backend;
mod build;
mod call_input;
mod call_lines;
mod completions;
mod deploy;
mod dev;
mod doctor;
mod drafted;
mod egress;
mod explain;
mod init;
mod list;
#[cfg_attr(unix, path = "local.rs")]
#[cfg_attr(not(unix), path = "elsewhere.rs")]
mod local;
mod migrate;
mod new;
#[cfg(unix)]
mod partial;
mod pieces;
mod process_table;
mod programs;
mod project;
mod remote;
mod remove;
mod rename;
mod runtime;
mod show;
mod side_by_side;
mod sides;
mod since;
mod snapshot_list;
mod table;
#[cfg(unix)]
mod terminal;
mod time;
mod tools;
mod untar;
mod watch;
mod with_wrangler;

#[cfg(unix)]
pub(crate) use self::programs::{SHELLS, start_shell};

use std::process::ExitCode;

use clap::ColorChoice;

use crate::args::{Cli, Command};

/// Runs a command. The exit code is 0 on success and 1 on errors or pending changes.
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
        Command::List(args) if args.egress => egress::list(&args.place),
        Command::List(args) => list::run(args),
        Command::Egress(args) => egress::run(args),
        Command::Rename(args) => rename::run(args),
        Command::Remove(args) => remove::run(args),
        Command::Migrate(args) => migrate::run(args),
        Command::Tools(args) => tools::run(args),
        Command::Doctor(args) => doctor::run(args),
        Command::Explain(args) => explain::run(args),
        Command::Completions(args) => completions::run(args),
        Command::Dev(args) => dev::run(args).unwrap_or_else(|code| code),
        Command::Deploy(args) => deploy::run(args).unwrap_or_else(|code| code),
        command => remote::run(command).unwrap_or_else(|| local::run(command)),
    }
}
