//! The commands that explain the egress policy, and that learn one.

use std::ffi::OsString;

use clap::{Args, Subcommand};

use super::{ListFormat, ProjectArgs, StateArgs};

/// `koze egress`.
#[derive(Debug, Args)]
pub struct Egress {
    /// What to do.
    #[command(subcommand)]
    pub action: EgressAction,
}

/// The actions of `koze egress`.
#[derive(Debug, Subcommand)]
pub enum EgressAction {
    /// Print the fewest `allowed_hosts` for what sandboxes on this machine tried to reach: ever, or while a command runs (Linux only)
    Learn(Learn),
    /// Print whether sandboxes may send a request, the rule that decides, and the credentials that it may carry; exit with 1 if one is
    /// refused. Nothing is sent
    Explain {
        /// The URL of the request
        url: String,

        /// Its method
        #[arg(long, value_name = "METHOD", default_value = "GET")]
        method: String,

        /// Only this sandbox, by the name of its file without `.sandbox.rs` [default: all]
        #[arg(long, value_name = "NAME")]
        sandbox: Option<String>,

        /// The options for the project.
        #[command(flatten)]
        place: ProjectArgs,
    },
}

/// `koze egress learn`.
#[derive(Debug, Args)]
pub struct Learn {
    /// Only this session [default: all]
    #[arg(long, value_name = "SESSION")]
    pub session: Option<String>,

    /// Output for people, or one JSON document on standard output
    #[arg(long, value_name = "FORMAT", default_value = "human")]
    pub format: ListFormat,

    /// The options for the project.
    #[command(flatten)]
    pub state: StateArgs,

    /// A command to run, with its arguments, such as `koze call …`: only what is tried meanwhile counts. koze exits as it does
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}
