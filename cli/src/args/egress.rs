//! The command that explains the egress policy.

use clap::{Args, Subcommand};

use super::ProjectArgs;

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
