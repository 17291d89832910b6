//! `koze completions`.

use std::process::ExitCode;

use clap::CommandFactory as _;

use super::show;
use crate::args::{self, Cli};

pub(super) fn run(args: &args::Completions) -> ExitCode {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "koze", &mut script);
    show::out(&String::from_utf8_lossy(&script));
    ExitCode::SUCCESS
}
