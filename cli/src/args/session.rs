//! The commands that use sandboxes on this machine.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{ArgGroup, Args, ValueEnum};

use super::{ListFormat, McpClient, StateArgs};

/// The default session.
pub const SESSION: &str = "default";

/// The default name of the server in the configuration of a client.
pub const SERVER: &str = "koze";

/// The options that select a session on this machine.
#[derive(Debug, Clone, Args)]
pub struct SessionArgs {
    /// A directory in the package
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub project: PathBuf,

    /// The wrangler configuration [default: the file wrangler would read]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// Where to keep sandboxes and their files [default: a directory for the package in
    /// `~/.local/state/koze`]
    #[arg(long, value_name = "DIR")]
    pub state: Option<PathBuf>,

    /// The session; sandboxes of different sessions share nothing
    #[arg(long, value_name = "SESSION", default_value = SESSION)]
    pub session: String,

    /// Run new sandboxes in containers of this engine, from the declared image. The sandboxes of a session all run in the same
    /// way [default: namespaces on Linux, Docker on macOS, or podman if only that is there; or as its sandboxes run already]
    #[arg(long, value_name = "ENGINE")]
    pub engine: Option<EngineName>,
}

/// A container engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum EngineName {
    /// Docker, at `DOCKER_HOST`, in the current context or at its usual socket
    Docker,
    /// podman, at `CONTAINER_HOST` or at its usual sockets
    Podman,
}

#[cfg(unix)]
impl From<EngineName> for crate::provider::EngineKind {
    fn from(name: EngineName) -> Self {
        match name {
            EngineName::Docker => Self::Docker,
            EngineName::Podman => Self::Podman,
        }
    }
}

/// The option that selects a server instead of this machine.
#[derive(Debug, Clone, Args)]
pub struct RemoteArgs {
    /// Use the sandboxes of a Worker, or of `koze serve`, at this URL instead of those on this machine. The token is
    /// `KOZE_TOKEN`
    #[arg(long, value_name = "URL", conflicts_with_all = ["project", "state"])]
    pub url: Option<String>,
}

/// The option that selects an agent.
#[derive(Debug, Clone, Args)]
pub struct AgentArgs {
    /// The agent of the tools `script`, whose state, libraries and tools are used [default: that of the session, which has
    /// its name]
    #[arg(long, value_name = "AGENT")]
    pub agent: Option<String>,
}

/// The files that new sandboxes have on this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LocalImage {
    /// Those of the declared image, which is pulled if the store does not have it
    Declared,
    /// Those of this machine
    Host,
}

impl From<LocalImage> for koze_core::provider::LocalImage {
    fn from(image: LocalImage) -> Self {
        match image {
            LocalImage::Declared => Self::Declared,
            LocalImage::Host => Self::Host,
        }
    }
}

/// The options for what is served to agents.
#[derive(Debug, Clone, Args)]
pub struct OfferArgs {
    /// The families of tools to serve, separated by commas [default: `agent`, or the only family of the project]
    #[arg(long, visible_alias = "family", value_name = "FAMILIES")]
    pub tools: Option<String>,

    /// The files that new sandboxes have on this machine [default: those of the image if the store has it, or what
    /// `package.metadata.koze.local.image` says]
    #[arg(long, value_name = "FILES")]
    pub image: Option<LocalImage>,
}

/// `koze call`.
#[derive(Debug, Args)]
pub struct Call {
    /// The tool, such as `shell`
    pub tool: String,

    /// The input of the tool, a JSON object; `-` reads it from standard input
    #[arg(value_name = "JSON", default_value = "{}")]
    pub input: String,

    /// What is served.
    #[command(flatten)]
    pub offer: OfferArgs,

    /// The agent, with `--tools script`.
    #[command(flatten)]
    pub agent: AgentArgs,

    /// The server.
    #[command(flatten)]
    pub remote: RemoteArgs,

    /// The options for the project.
    #[command(flatten)]
    pub session: SessionArgs,
}

/// `koze cp`.
#[derive(Debug, Args)]
pub struct Cp {
    /// What to copy: a path, `NAME:PATH` for a path in a sandbox, or `-` for standard input. A directory is copied with its
    /// contents
    #[arg(value_name = "SRC")]
    pub from: OsString,

    /// Where to copy it: a path, `NAME:PATH`, or `-` for standard output. In an existing directory, the copy gets the name of SRC
    #[arg(value_name = "DST")]
    pub to: OsString,

    /// The server.
    #[command(flatten)]
    pub remote: RemoteArgs,

    /// The options for the project.
    #[command(flatten)]
    pub session: SessionArgs,
}

/// `koze sandboxes`.
#[derive(Debug, Args)]
pub struct Sandboxes {
    /// The server.
    #[command(flatten)]
    pub remote: RemoteArgs,

    /// The options for the project.
    #[command(flatten)]
    pub state: StateArgs,

    /// List only this session [default: all sessions]
    #[arg(long, value_name = "SESSION")]
    pub session: Option<String>,

    /// Show which hosts were reached and refused, and the rule that decided
    #[arg(long)]
    pub egress: bool,

    /// Output for people, or one JSON document on standard output
    #[arg(long, value_name = "FORMAT", default_value = "human")]
    pub format: ListFormat,
}

/// `koze destroy`.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("which").required(true).args(["names", "all"]))]
pub struct Destroy {
    /// The sandboxes to destroy
    #[arg(value_name = "NAME")]
    pub names: Vec<String>,

    /// Destroy all sandboxes of the session
    #[arg(long)]
    pub all: bool,

    /// The server.
    #[command(flatten)]
    pub remote: RemoteArgs,

    /// The options for the project.
    #[command(flatten)]
    pub session: SessionArgs,
}

/// `koze mcp`.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("configuration").args(["print_config", "write"]).conflicts_with_all(["http", "url", "allow_origin"]))]
pub struct Mcp {
    /// Serve streamable HTTP at this loopback address instead of standard input and output. The bearer token is
    /// `KOZE_MCP_TOKEN`, or a new one that koze prints
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1, default_missing_value = "127.0.0.1:0")]
    pub http: Option<String>,

    /// Allow web pages of this origin to call, such as `http://localhost:6274` [default: none]
    #[arg(long, value_name = "ORIGIN", requires = "http")]
    pub allow_origin: Vec<String>,

    /// Serve nothing: print the configuration with which a client starts this server. Standard error says which file it
    /// belongs to
    #[arg(long, value_name = "CLIENT")]
    pub print_config: Option<McpClient>,

    /// Serve nothing: add that configuration to the client's file in the project, and leave the rest of the file as it is
    #[arg(long, value_name = "CLIENT")]
    pub write: Option<McpClient>,

    /// The name of the server in that configuration
    #[arg(long, value_name = "NAME", default_value = SERVER, requires = "configuration", value_parser = parse_server_name)]
    pub name: String,

    /// What is served.
    #[command(flatten)]
    pub offer: OfferArgs,

    /// The server.
    #[command(flatten)]
    pub remote: RemoteArgs,

    /// The options for the project.
    #[command(flatten)]
    pub session: SessionArgs,
}

/// Parses the name of a server. Codex accepts only these characters.
fn parse_server_name(name: &str) -> Result<String, String> {
    let is_valid = |char: char| char.is_ascii_alphanumeric() || matches!(char, '-' | '_');
    if name.is_empty() || !name.chars().all(is_valid) {
        return Err("a name consists of letters, digits, `-` and `_`".to_owned());
    }
    Ok(name.to_owned())
}

/// The tools that `koze demo` plays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum DemoTools {
    /// An agent builds a site in one sandbox and serves it from another
    Agent,
    /// An agent works in the directories of one thread
    Thread,
    /// An agent edits files, runs commands and keeps variables in one workspace
    Workspace,
    /// An agent runs scripts, writes a library, and creates a tool
    Script,
}

/// `koze demo`.
#[derive(Debug, Args)]
pub struct Demo {
    /// The family of tools to play
    #[arg(long, value_enum, value_name = "FAMILY", default_value = "agent")]
    pub tools: DemoTools,
    /// The `runtime` directory of a koze checkout, for the dependency on the crate `koze` [default: that of the checkout
    /// that this koze runs from or was built from; a published koze uses the published crate]
    #[arg(long, value_name = "DIR")]
    pub runtime_path: Option<PathBuf>,
}

/// `koze supervise`: runs the sandboxes of a session. Started by [`crate::session`].
#[derive(Debug, Args)]
pub struct Supervise {
    /// Where to keep sandboxes and their files
    #[arg(long)]
    pub state: PathBuf,

    /// The session
    #[arg(long)]
    pub session: String,

    /// The engine of its containers
    #[arg(long)]
    pub engine: Option<EngineName>,
}
