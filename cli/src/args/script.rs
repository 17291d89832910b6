//! The command that runs scripts.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{AgentArgs, ListFormat, SessionArgs};

/// `koze script`.
#[derive(Debug, Args)]
pub struct Script {
    /// What to do.
    #[command(subcommand)]
    pub action: ScriptAction,
}

/// The actions of `koze script`.
#[derive(Debug, Subcommand)]
pub enum ScriptAction {
    /// Run a script as `run_sandbox_code` does. Prints its result on standard output and its log on standard error
    Run {
        /// The file; `-` reads standard input
        file: PathBuf,

        /// The agent.
        #[command(flatten)]
        agent: AgentArgs,

        /// The options for the project.
        #[command(flatten)]
        session: SessionArgs,
    },
    /// List the tools that an agent has created
    Tools {
        /// Output for people, or one JSON document on standard output
        #[arg(long, value_name = "FORMAT", default_value = "human")]
        format: ListFormat,

        /// The agent.
        #[command(flatten)]
        agent: AgentArgs,

        /// The options for the project.
        #[command(flatten)]
        session: SessionArgs,
    },
    /// List the libraries that an agent has created
    Libs {
        /// Output for people, or one JSON document on standard output
        #[arg(long, value_name = "FORMAT", default_value = "human")]
        format: ListFormat,

        /// The agent.
        #[command(flatten)]
        agent: AgentArgs,

        /// The options for the project.
        #[command(flatten)]
        session: SessionArgs,
    },
}
