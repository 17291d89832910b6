//! `koze completions`.

use std::process::ExitCode;

use clap::{Command, CommandFactory as _};

use super::show;
use crate::args::{self, Cli};

pub(super) fn run(args: &args::Completions) -> ExitCode {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut public_commands(), "koze", &mut script);
    show::out(&String::from_utf8_lossy(&script));
    ExitCode::SUCCESS
}

/// Returns the command line without the commands that koze itself runs, which `clap_complete` would offer, too.
fn public_commands() -> Command {
    let cli = Cli::command();
    let shown = cli.get_subcommands().filter(|command| !command.is_hide_set()).cloned();
    let version = env!("CARGO_PKG_VERSION");
    let public = Command::new("koze").version(version).propagate_version(true);
    public.args(cli.get_arguments().cloned()).subcommands(shown)
}
