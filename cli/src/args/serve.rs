//! `koze serve`.

use std::net::IpAddr;
use std::path::PathBuf;

use clap::Args;

use super::{EngineName, OfferArgs, SessionArgs, StateArgs};

/// `koze serve`.
#[derive(Debug, Args)]
pub struct Serve {
    /// The address to listen on. One that others can reach requires a token
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1")]
    pub host: IpAddr,

    /// The port to listen on; `0` chooses a free one
    #[arg(long, default_value_t = 8787)]
    pub port: u16,

    /// Serve previews at subdomains of the host of this URL, such as `https://previews.example.com`, whose requests must arrive here
    /// [default: on a port of their own that only this machine reaches]
    #[arg(long, value_name = "URL")]
    pub preview_url: Option<String>,

    /// Allow web pages of this origin to call, such as `http://localhost:6274` [default: none]
    #[arg(long, value_name = "ORIGIN")]
    pub allow_origin: Vec<String>,

    /// The maximum number of sessions of a tenant that are in use at a time. Each has a process of its own
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = parse_max_sessions)]
    pub max_sessions: usize,

    /// What is served.
    #[command(flatten)]
    pub offer: OfferArgs,

    /// The wrangler configuration [default: the file wrangler would read]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// Run new sandboxes in containers of this engine, from the declared images [default: namespaces on Linux, Docker or podman on macOS]
    #[arg(long, value_name = "ENGINE")]
    pub engine: Option<EngineName>,

    /// The options that select the state directory.
    #[command(flatten)]
    pub state: StateArgs,
}

impl Serve {
    /// Returns the options that select the default session.
    pub fn default_session(&self) -> SessionArgs {
        SessionArgs { config: self.config.clone(), engine: self.engine, ..self.state.in_session(None) }
    }
}

/// Parses the maximum number of sessions.
fn parse_max_sessions(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) | Err(_) => Err("a number from 1 on".to_owned()),
        Ok(number) => Ok(number),
    }
}
