//! The command that keeps the secrets of scripts.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::{ListFormat, SESSION, SessionArgs};

/// `koze secret`.
#[derive(Debug, Args)]
pub struct Secret {
    /// What to do.
    #[command(subcommand)]
    pub action: SecretAction,
}

/// The actions of `koze secret`.
#[derive(Debug, Subcommand)]
pub enum SecretAction {
    /// Set a secret. Its value is read from standard input, or from a prompt on a terminal; one line ending after it is dropped
    Set {
        /// The name: scripts read `secrets.NAME`
        name: String,

        /// The options for the project.
        #[command(flatten)]
        state: StateArgs,
    },
    /// List the names of the secrets
    List {
        /// Output for people, or one JSON document on standard output
        #[arg(long, value_name = "FORMAT", default_value = "human")]
        format: ListFormat,

        /// The options for the project.
        #[command(flatten)]
        state: StateArgs,
    },
    /// Remove a secret
    Rm {
        /// The name
        name: String,

        /// The options for the project.
        #[command(flatten)]
        state: StateArgs,
    },
}

/// The options that select the state directory of a project.
#[derive(Debug, Clone, Args)]
pub struct StateArgs {
    /// A directory in the package
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub project: PathBuf,

    /// Where to keep sandboxes and their files [default: a directory for the package in
    /// `~/.local/state/koze`]
    #[arg(long, value_name = "DIR")]
    pub state: Option<PathBuf>,
}

impl StateArgs {
    /// Returns the options that select a session in the directory, by default the default one.
    pub fn in_session(&self, session: Option<&str>) -> SessionArgs {
        SessionArgs {
            project: self.project.clone(),
            config: None,
            state: self.state.clone(),
            session: session.unwrap_or(SESSION).to_owned(),
            engine: None,
        }
    }
}
