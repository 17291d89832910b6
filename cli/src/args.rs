//! The command line.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{ArgGroup, Args, ColorChoice, Parser, Subcommand, ValueEnum};

/// Isolated Linux sandboxes on Cloudflare for Rust Workers.
#[derive(Debug, Parser)]
#[command(name = "koze", version, propagate_version = true, max_term_width = 100)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,

    /// When to colour the output; `NO_COLOR` is honoured.
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    pub color: ColorChoice,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Keep the wrangler configuration and the generated code in step with the sandbox files
    Build(Build),
    /// Create a complete agent Worker project in a new directory, and build it
    New(New),
    /// Make an existing package one that koze builds
    Init(Init),
    /// Create a sandbox file, and build
    Add(Add),
    /// List the sandboxes of the project
    List(List),
    /// Give a sandbox, or its class alone, another name; its storage stays
    Rename(Rename),
    /// Take sandboxes whose files are gone out of the wrangler configuration
    Remove(Remove),
    /// Move sandboxes to another backend, or make one of a container of the class `Sandbox`
    Migrate(Migrate),
    /// Print the definitions of the tools that agents get in this project
    Tools(Tools),
    /// Check the project and the tools it needs, and say what to do next
    Doctor(Doctor),
    /// Call a tool in a sandbox on this machine
    Call(Call),
    /// List the sandboxes on this machine
    Sandboxes(Sandboxes),
    /// End sandboxes on this machine, and take their files away
    Destroy(Destroy),
    /// Serve the tools to an agent over the Model Context Protocol, with sandboxes on this machine
    Mcp(Mcp),
    /// Play an agent's work with two sandboxes in a new project, and show each call
    Demo(Demo),
    /// Run the Worker on this machine, and build again after each change
    Dev(Dev),
    /// Deploy the Worker, where every file is in step and no storage would be lost
    Deploy(Deploy),
    /// Run the sandboxes of a session
    #[command(hide = true)]
    Supervise(Supervise),
    /// Run a program, and end all that it has started
    #[command(hide = true)]
    Guard(Guard),
    /// Tell what the code of a diagnostic means
    Explain(Explain),
    /// Print a completion script for a shell
    Completions(Completions),
}

/// Where the project is.
#[derive(Debug, Args)]
pub struct Where {
    /// A directory in the package
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub project: PathBuf,

    /// The wrangler configuration [default: the file wrangler would read]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// Take warnings for errors
    #[arg(long)]
    pub strict: bool,

    /// For a person, or one JSON document on standard output
    #[arg(long, value_name = "FORMAT", default_value = "human")]
    pub format: Format,
}

/// Who reads the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[allow(missing_docs, reason = "a documented value would make the help three lines longer")]
pub enum Format {
    // A person.
    Human,
    // A program.
    Json,
}

/// `koze build`.
#[derive(Debug, Args)]
pub struct Build {
    /// Where.
    #[command(flatten)]
    pub place: Where,

    /// Write nothing; show the diff and exit with 1 if anything would change
    #[arg(long, conflicts_with = "dry_run")]
    pub check: bool,

    /// Write nothing; show the diff
    #[arg(long)]
    pub dry_run: bool,

    /// Build again whenever something changes that a build reads; ends with Ctrl-C
    #[arg(long, conflicts_with_all = ["check", "dry_run"])]
    pub watch: bool,
}

/// `koze init`.
#[derive(Debug, Args)]
pub struct Init {
    /// The `runtime` directory of a koze checkout, for the crate `koze` is not published yet [default: the checkout
    /// this koze runs from or was built from]
    #[arg(long, value_name = "DIR")]
    pub runtime_path: Option<PathBuf>,

    /// Raise the crate `worker` in Cargo.toml to the version that the generated code compiles with, where it is older
    #[arg(long)]
    pub raise_worker: bool,

    /// Where, and how.
    #[command(flatten)]
    pub edit: Edit,
}

/// `koze add`.
#[derive(Debug, Args)]
pub struct Add {
    /// The sandbox: the name of its file without `.sandbox.rs`
    pub name: String,

    /// The variant of the sandbox image, such as python
    #[arg(long)]
    pub variant: Option<String>,

    /// The directory of the file, below `src` [default: that of the other sandboxes, else src/server]
    #[arg(long, value_name = "DIR")]
    pub dir: Option<String>,

    /// Where, and how.
    #[command(flatten)]
    pub edit: Edit,
}

/// `koze rename`.
#[derive(Debug, Args)]
pub struct Rename {
    /// The sandbox: the name of its file without `.sandbox.rs`, or its class
    pub old: String,

    /// Its new name: that of a file (`code-interpreter`), or of a class alone (`CodeInterpreter`)
    pub new: String,

    /// Where, and how.
    #[command(flatten)]
    pub edit: Edit,
}

/// `koze migrate`.
#[derive(Debug, Args)]
pub struct Migrate {
    /// The sandbox that the class `Sandbox` becomes: the name of its file without `.sandbox.rs`, `shell` where none is
    /// given. With `--backend`, the one that moves, by the name of its file or its class: all, where none is given
    pub name: Option<String>,

    /// Move sandboxes to another backend: `native` is koze's own guest in any image, `sdk` Cloudflare's Sandbox SDK.
    /// Classes, bindings and storage stay
    #[arg(long, value_name = "BACKEND")]
    pub backend: Option<Backend>,

    /// Where, and how.
    #[command(flatten)]
    pub edit: Edit,
}

/// What runs behind the class of a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[allow(missing_docs, reason = "a documented value would make the help three lines longer")]
pub enum Backend {
    Native,
    Sdk,
}

impl From<Backend> for koze_model::Backend {
    fn from(backend: Backend) -> Self {
        match backend {
            Backend::Native => Self::Native,
            Backend::Sdk => Self::Sdk,
        }
    }
}

/// `koze doctor`.
#[derive(Debug, Args)]
pub struct Doctor {
    /// Try to escape from sandboxes on this machine instead, with a control for each attempt
    #[arg(long, conflicts_with_all = ["project", "config", "strict"])]
    pub prove: bool,

    /// Where.
    #[command(flatten)]
    pub place: Where,
}

/// `koze tools`.
#[derive(Debug, Args)]
pub struct Tools {
    /// Whose words the definitions are written in
    #[arg(long, value_name = "DIALECT", default_value = "mcp")]
    pub dialect: Dialect,

    /// Where.
    #[command(flatten)]
    pub place: Where,
}

/// Whose words a definition is written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[allow(missing_docs, reason = "a documented value would make the help three lines longer")]
pub enum Dialect {
    // The Model Context Protocol.
    Mcp,
    // The Messages API.
    Anthropic,
    // Function calling. Its name has no hyphen.
    #[value(name = "openai")]
    OpenAi,
}

impl From<Dialect> for koze::tool::dialect::Dialect {
    fn from(dialect: Dialect) -> Self {
        match dialect {
            Dialect::Mcp => Self::Mcp,
            Dialect::Anthropic => Self::Anthropic,
            Dialect::OpenAi => Self::OpenAi,
        }
    }
}

/// `koze completions`.
#[derive(Debug, Args)]
pub struct Completions {
    /// The shell
    pub shell: clap_complete::Shell,
}

/// What the commands have in common that change sources.
#[derive(Debug, Args)]
pub struct Edit {
    /// Where.
    #[command(flatten)]
    pub place: Where,

    /// Write nothing; show the diff
    #[arg(long)]
    pub dry_run: bool,
}

/// `koze list`.
#[derive(Debug, Args)]
pub struct List {
    /// Where.
    #[command(flatten)]
    pub place: Where,
}

/// `koze explain`.
#[derive(Debug, Args)]
pub struct Explain {
    /// The code, such as K010
    pub code: String,
}

/// `koze remove`.
#[derive(Debug, Args)]
#[command(
    group = ArgGroup::new("storage").required(true).args(["delete_storage", "keep_storage", "never_deployed"]),
    override_usage = "koze remove [OPTIONS] <--delete-storage|--keep-storage> <NAME>...\n       \
                      koze remove [OPTIONS] --never-deployed <NAME>..."
)]
#[allow(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub struct Remove {
    /// The sandboxes: the names of their files without `.sandbox.rs`, or their classes
    #[arg(value_name = "NAME", required = true)]
    pub names: Vec<String>,

    /// Delete what its Durable Objects have stored, when the migration is deployed; there is no way back
    #[arg(long)]
    pub delete_storage: bool,

    /// Keep what its Durable Objects have stored, behind a plain Durable Object of the same class
    #[arg(long)]
    pub keep_storage: bool,

    /// Take out what made its class, too, and what deleted it: you say that it was never deployed, which koze cannot know.
    /// Cloudflare refuses a first deployment that makes a class and deletes it
    #[arg(long)]
    pub never_deployed: bool,

    /// Where.
    #[command(flatten)]
    pub place: Where,

    /// Write nothing; show the diff
    #[arg(long)]
    pub dry_run: bool,
}

/// `koze new`.
#[derive(Debug, Args)]
pub struct New {
    /// The directory to create
    pub dir: PathBuf,

    /// The package's name [default: the directory's]
    #[arg(long)]
    pub name: Option<String>,

    /// What runs behind the sandbox: `native` is koze's own guest in any image, and writes a project without the SDK
    #[arg(long, value_name = "BACKEND", default_value = "sdk")]
    pub backend: Backend,

    /// The `runtime` directory of a koze checkout, for the crate `koze` is not published yet [default: the checkout
    /// this koze runs from or was built from]
    #[arg(long, value_name = "DIR")]
    pub runtime_path: Option<PathBuf>,
}

/// The session where nobody names one.
pub const SESSION: &str = "default";

/// A session on this machine.
#[derive(Debug, Clone, Args)]
pub struct Here {
    /// A directory in the package
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub project: PathBuf,

    /// The wrangler configuration [default: the file wrangler would read]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// Where sandboxes and their files are kept [default: a directory for the package in
    /// `~/.local/state/koze`]
    #[arg(long, value_name = "DIR")]
    pub state: Option<PathBuf>,

    /// The session: sandboxes of one session share nothing with those of another
    #[arg(long, value_name = "SESSION", default_value = SESSION)]
    pub session: String,
}

/// `koze call`.
#[derive(Debug, Args)]
pub struct Call {
    /// The tool, such as shell
    pub tool: String,

    /// Its input, a JSON object; `-` reads it from standard input
    #[arg(value_name = "JSON", default_value = "{}")]
    pub input: String,

    /// Where.
    #[command(flatten)]
    pub here: Here,
}

/// `koze sandboxes`.
#[derive(Debug, Args)]
pub struct Sandboxes {
    /// A directory in the package
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub project: PathBuf,

    /// Where sandboxes and their files are kept [default: a directory for the package in
    /// `~/.local/state/koze`]
    #[arg(long, value_name = "DIR")]
    pub state: Option<PathBuf>,

    /// One session alone [default: all]
    #[arg(long, value_name = "SESSION")]
    pub session: Option<String>,

    /// Show which hosts they reached and which they were refused, with the rule that decided
    #[arg(long)]
    pub egress: bool,

    /// For a person, or one JSON document on standard output
    #[arg(long, value_name = "FORMAT", default_value = "human")]
    pub format: Format,
}

/// `koze destroy`.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("which").required(true).args(["names", "all"]))]
pub struct Destroy {
    /// The sandboxes
    #[arg(value_name = "NAME")]
    pub names: Vec<String>,

    /// All of the session
    #[arg(long)]
    pub all: bool,

    /// Where.
    #[command(flatten)]
    pub here: Here,
}

/// `koze mcp`.
#[derive(Debug, Args)]
pub struct Mcp {
    /// Serve streamable HTTP at this address of the loopback interface, instead of standard input and output; the
    /// bearer token is `KOZE_MCP_TOKEN`, or a new one that is printed
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1, default_missing_value = "127.0.0.1:0")]
    pub http: Option<String>,

    /// An origin of web pages that may call, such as `http://localhost:6274`; by default none may
    #[arg(long, value_name = "ORIGIN", requires = "http")]
    pub allow_origin: Vec<String>,

    /// Where.
    #[command(flatten)]
    pub here: Here,
}

/// `koze demo`.
#[derive(Debug, Args)]
pub struct Demo {
    /// The `runtime` directory of a koze checkout, for the crate `koze` is not published yet [default: the checkout
    /// this koze runs from or was built from]
    #[arg(long, value_name = "DIR")]
    pub runtime_path: Option<PathBuf>,
}

/// What `koze dev` and `koze deploy` have in common.
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

    /// Further arguments for wrangler
    #[arg(last = true, value_name = "ARGS")]
    pub wrangler: Vec<String>,
}

/// `koze dev`.
#[derive(Debug, Args)]
pub struct Dev {
    /// With sandboxes on this machine instead of containers: no Docker, no account (Linux)
    #[arg(long)]
    pub local: bool,

    /// The port that the Worker listens at [default: wrangler's, 8787]
    #[arg(long)]
    pub port: Option<u16>,

    /// With `--local`, where sandboxes and their files are kept [default: a directory for the package in
    /// `~/.local/state/koze`]
    #[arg(long, value_name = "DIR", requires = "local")]
    pub state: Option<PathBuf>,

    /// Where, and how.
    #[command(flatten)]
    pub run: Run,
}

/// `koze deploy`.
#[derive(Debug, Args)]
pub struct Deploy {
    /// Take warnings for errors
    #[arg(long)]
    pub strict: bool,

    /// Where, and how.
    #[command(flatten)]
    pub run: Run,
}

/// What ends wrangler with koze; [`crate::dev`] starts it.
#[derive(Debug, Args)]
pub struct Guard {
    /// The process that it must not outlive
    pub parent: u32,

    /// The program, and its arguments
    #[arg(last = true, required = true)]
    pub program: Vec<OsString>,
}

/// What runs the sandboxes of a session; [`crate::session`] starts it.
#[derive(Debug, Args)]
pub struct Supervise {
    /// Where sandboxes and their files are kept
    #[arg(long)]
    pub state: PathBuf,

    /// The session
    #[arg(long)]
    pub session: String,
}
