//! `koze ui`.

use std::path::PathBuf;

use clap::Args;

use super::{LocalImage, OfferArgs, RemoteArgs, SESSION, SessionArgs, StateArgs};

/// `koze ui`.
#[derive(Debug, Args)]
pub struct Ui {
    /// The port to listen on, at the loopback interface only; `0` chooses a free one
    #[arg(long, default_value_t = 0)]
    pub port: u16,

    /// Changes nothing: no terminals, no writes
    #[arg(long)]
    pub read_only: bool,

    /// The wrangler configuration [default: the file wrangler would read]
    #[arg(long, value_name = "FILE", conflicts_with = "url")]
    pub config: Option<PathBuf>,

    /// The files that sandboxes have on this machine when the page wakes them [default: those of the image if the store has
    /// it, or what `package.metadata.koze.local.image` says]
    #[arg(long, value_name = "FILES", conflicts_with = "url")]
    pub image: Option<LocalImage>,

    /// The session to show of a server that does not list its sessions, such as a Worker
    #[arg(long, value_name = "NAME", default_value = SESSION, requires = "url")]
    pub session: String,

    /// The option that selects a server.
    #[command(flatten)]
    pub remote: RemoteArgs,

    /// The options that select the state directory.
    #[command(flatten)]
    pub state: StateArgs,
}

impl Ui {
    /// Returns the options that select the default session.
    pub fn default_session(&self) -> SessionArgs {
        SessionArgs { config: self.config.clone(), ..self.state.in_session(None) }
    }

    /// Returns what the project offers. The page calls no tools.
    pub fn offer(&self) -> OfferArgs {
        OfferArgs { tools: None, image: self.image }
    }
}
