//! One module for each command.

mod add;
mod backend;
mod build;
#[cfg(target_os = "linux")]
mod call;
mod completions;
#[cfg(target_os = "linux")]
mod demo;
mod deploy;
#[cfg(target_os = "linux")]
mod destroy;
mod dev;
mod doctor;
mod drafted;
mod explain;
#[cfg(target_os = "linux")]
mod guard;
mod init;
mod list;
#[cfg(target_os = "linux")]
mod local_session;
#[cfg(target_os = "linux")]
mod mcp;
mod migrate;
mod new;
mod project;
#[cfg(target_os = "linux")]
mod prove;
mod remove;
mod rename;
mod runtime;
#[cfg(target_os = "linux")]
mod sandboxes;
mod show;
#[cfg(target_os = "linux")]
mod supervise;
mod tools;
mod watch;
mod with_wrangler;

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
        Command::List(args) => list::run(args),
        Command::Rename(args) => rename::run(args),
        Command::Remove(args) => remove::run(args),
        Command::Migrate(args) => migrate::run(args),
        Command::Tools(args) => tools::run(args),
        Command::Doctor(args) => doctor::run(args),
        Command::Explain(args) => explain::run(args),
        Command::Completions(args) => completions::run(args),
        Command::Dev(args) => dev::run(args),
        Command::Deploy(args) => deploy::run(args),
        #[cfg(target_os = "linux")]
        Command::Call(args) => call::run(args),
        #[cfg(target_os = "linux")]
        Command::Sandboxes(args) => sandboxes::run(args),
        #[cfg(target_os = "linux")]
        Command::Destroy(args) => destroy::run(args),
        #[cfg(target_os = "linux")]
        Command::Mcp(args) => mcp::run(args),
        #[cfg(target_os = "linux")]
        Command::Demo(args) => demo::run(args),
        #[cfg(target_os = "linux")]
        Command::Supervise(args) => supervise::run(args),
        #[cfg(target_os = "linux")]
        Command::Guard(args) => guard::run(args),
        #[cfg(not(target_os = "linux"))]
        _ => {
            show::err(
                "error: local sandboxes need Linux; on other systems use `koze dev`, which runs them in containers\n",
            );
            ExitCode::FAILURE
        }
    }
}
