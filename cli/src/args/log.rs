//! The command that shows the journal of tool calls.

use clap::{Args, Subcommand};

use super::{RemoteArgs, StateArgs};

/// `koze log`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Log {
    /// What to do instead of listing calls.
    #[command(subcommand)]
    pub action: Option<LogAction>,

    /// Wait for new calls and show them, until Ctrl-C
    #[arg(short, long)]
    pub follow: bool,

    /// Show only calls of this session
    #[arg(long, value_name = "SESSION")]
    pub session: Option<String>,

    /// Show only calls that used this sandbox
    #[arg(long, value_name = "NAME")]
    pub sandbox: Option<String>,

    /// Show only calls of this tool
    #[arg(long, value_name = "TOOL")]
    pub tool: Option<String>,

    /// Show only calls since a time, such as `2026-11-29T07:00:00Z`, or of the last `30s`, `10m`, `2h` or `1d`
    #[arg(long, value_name = "TIME")]
    pub since: Option<String>,

    /// Print a JSON object for each call, one a line
    #[arg(long)]
    pub json: bool,

    /// The server.
    #[command(flatten)]
    pub remote: RemoteArgs,

    /// The options for the project.
    #[command(flatten)]
    pub state: StateArgs,
}

/// The actions of `koze log`.
#[derive(Debug, Subcommand)]
pub enum LogAction {
    /// Show all that is recorded of a call, and the command that repeats it
    Show {
        /// The number of the call, which `koze log` shows
        id: u64,

        /// Print one JSON document
        #[arg(long)]
        json: bool,

        /// The options for the project.
        #[command(flatten)]
        state: StateArgs,
    },
}
