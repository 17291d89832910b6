//! The commands that run wrangler.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

/// The options that `koze dev` and `koze deploy` share.
#[derive(Debug, Args)]
pub struct Run {
    /// A directory in the package
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub project: PathBuf,

    /// The wrangler configuration [default: the file wrangler would read]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// The environment of the wrangler configuration [default: `CLOUDFLARE_ENV`, else the top level]
    #[arg(long, value_name = "NAME")]
    pub env: Option<String>,

    /// Arguments to pass to wrangler
    #[arg(last = true, value_name = "ARGS")]
    pub wrangler: Vec<String>,
}

/// `koze dev`.
#[derive(Debug, Args)]
pub struct Dev {
    /// Use sandboxes on this machine instead of containers, without Docker or an account (Linux only)
    #[arg(long)]
    pub local: bool,

    /// The port that the Worker listens on [default: wrangler's, 8787]
    #[arg(long)]
    pub port: Option<u16>,

    /// With `--local`, where to keep sandboxes and their files [default: a directory for the package in
    /// `~/.local/state/koze`]
    #[arg(long, value_name = "DIR", requires = "local")]
    pub state: Option<PathBuf>,

    /// The options for the project.
    #[command(flatten)]
    pub run: Run,
}

/// `koze deploy`.
#[derive(Debug, Args)]
pub struct Deploy {
    /// Treat warnings as errors
    #[arg(long)]
    pub strict: bool,

    /// The options for the project.
    #[command(flatten)]
    pub run: Run,
}

/// `koze guard`: kills wrangler and its children when koze exits. Started by [`crate::dev`].
#[derive(Debug, Args)]
pub struct Guard {
    /// The process with which the program ends
    pub parent: u32,

    /// The program and its arguments
    #[arg(last = true, required = true)]
    pub program: Vec<OsString>,
}
