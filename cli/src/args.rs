//! The command line.

mod client;
mod egress;
mod image;
mod log;
mod process;
mod run;
mod script;
mod secret;
mod serve;
mod session;
mod snapshot;
mod tips;
mod ui;

use std::path::PathBuf;

use clap::{ArgGroup, Args, ColorChoice, Parser, Subcommand, ValueEnum};

pub use self::client::{McpClient, RunAgent};
pub use self::egress::{Egress, EgressAction, Learn};
pub use self::image::{BuildEngine, ContainerEngine, Image, ImageAction, ImageArgs};
pub use self::log::{Log, LogAction};
pub use self::process::{Exec, Inspect, Kill, Logs, Ps, Shell, Stop};
pub use self::run::{Deploy, Dev, Guard, Run};
pub use self::script::{Script, ScriptAction};
pub use self::secret::{Secret, SecretAction, StateArgs};
pub use self::serve::Serve;
pub use self::session::{
    AgentArgs, Call, Cp, Demo, DemoTools, Destroy, EngineName, LocalImage, Mcp, OfferArgs, RemoteArgs,
    SERVER, SESSION, Sandboxes, SessionArgs, Supervise,
};
pub use self::snapshot::{Snapshot, SnapshotAction, SnapshotArgs};
pub use self::tips::only_safe_tips;
pub use self::ui::Ui;

/// Isolated Linux sandboxes on Cloudflare for Rust Workers.
#[derive(Debug, Parser)]
#[command(name = "koze", version, propagate_version = true, max_term_width = 100)]
pub struct Cli {
    /// The command to run.
    #[command(subcommand)]
    pub command: Command,

    /// When to color the output; `NO_COLOR` is honored.
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    pub color: ColorChoice,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Update the wrangler configuration and the generated files to match the sandbox files
    Build(Build),
    /// Create a complete agent Worker project in a new directory and build it
    New(New),
    /// Set up an existing package for koze
    Init(Init),
    /// Create a sandbox file and build
    Add(Add),
    /// List the sandboxes of the project
    List(List),
    /// Rename a sandbox, or only its class, and keep its storage
    Rename(Rename),
    /// Remove sandboxes from the wrangler configuration after their files were deleted
    Remove(Remove),
    /// Move sandboxes to another backend, or convert a hand-written container of the class `Sandbox`
    Migrate(Migrate),
    /// Explain what the egress policy of the project makes of a request, or learn a policy
    Egress(Egress),
    /// Print the tool definitions of the project as JSON
    Tools(Tools),
    /// Check the project and the tools it needs, and print remedies
    Doctor(Doctor),
    /// Call a tool in a sandbox on this machine (not on Windows, except with --url)
    Call(Call),
    /// Copy files and directories into sandboxes on this machine and out of them (not on Windows, except with --url)
    Cp(Cp),
    /// Run a program in a sandbox on this machine, with the input and output of this command (not on Windows, except with --url)
    Exec(Exec),
    /// Open a shell in a sandbox on this machine (not on Windows, except with --url)
    Shell(Shell),
    /// List the sandboxes on this machine and what they use, or the processes of one (not on Windows, except with --url)
    Ps(Ps),
    /// Show the output of a process of a sandbox on this machine (not on Windows, except with --url)
    Logs(Logs),
    /// Send a signal to processes of a sandbox on this machine (not on Windows, except with --url)
    Kill(Kill),
    /// Put sandboxes on this machine to sleep: their programs end, their files stay (not on Windows)
    Stop(Stop),
    /// Show the profile, policy, limits and state of a sandbox on this machine as JSON (not on Windows, except with --url)
    Inspect(Inspect),
    /// List the sandboxes on this machine (not on Windows, except with --url)
    Sandboxes(Sandboxes),
    /// Show the tool calls on this machine: who called which tool, and how that ended (not on Windows, except with --url)
    Log(Log),
    /// Destroy sandboxes on this machine and delete their files (not on Windows, except with --url)
    Destroy(Destroy),
    /// Take, restore and exchange snapshots of workspaces (not on Windows, except with --url)
    Snapshot(Snapshot),
    /// Pull, build, list and exchange the images in the store of this machine (Linux only)
    Image(Image),
    /// Run scripts of agents on this machine, and list their tools and libraries (Linux only)
    Script(Script),
    /// Set, list and remove the secrets that scripts on this machine get (not on Windows)
    Secret(Secret),
    /// Serve the tools to an agent over the Model Context Protocol, with sandboxes on this machine (not on Windows, except with --url)
    Mcp(Mcp),
    /// Serve the sessions of several tenants over HTTP, with the routes of a Worker and sandboxes on this machine (not on Windows)
    Serve(Serve),
    /// Serve a page with the sessions, tool calls, files, processes and terminals of sandboxes, here or on a server (not on Windows)
    Ui(Ui),
    /// Start an agent, such as Claude Code, with the tools of sandboxes on this machine (not on Windows)
    Run(RunAgent),
    /// Create a project, play an agent's work in its sandboxes, and show each call (Linux only)
    Demo(Demo),
    /// Run the Worker on this machine, and build again after each change
    Dev(Dev),
    /// Deploy the Worker if every file is in step and no storage would be lost
    Deploy(Deploy),
    /// Run the sandboxes of a session
    #[command(hide = true)]
    Supervise(Supervise),
    /// Run a program, and end all processes that it started
    #[command(hide = true)]
    Guard(Guard),
    /// Explain the code of a diagnostic, with an example
    Explain(Explain),
    /// Print a completion script for a shell
    Completions(Completions),
}

/// The options that locate the project and format the output.
#[derive(Debug, Args)]
pub struct ProjectArgs {
    /// A directory in the package
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub project: PathBuf,

    /// The wrangler configuration [default: the file wrangler would read]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// Treat warnings as errors
    #[arg(long)]
    pub strict: bool,

    /// Output for people; one JSON document on standard output; or output for people, with the diagnostics as
    /// annotations of GitHub Actions
    #[arg(long, value_name = "FORMAT", default_value = "human")]
    pub format: Format,
}

/// The format of the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[allow(missing_docs, reason = "a documented value would make the help three lines longer")]
pub enum Format {
    // Text for people.
    Human,
    // JSON for programs.
    Json,
    // Text for people, with workflow commands that GitHub Actions turns into annotations.
    #[value(name = "github")]
    GitHub,
}

/// The format of output that has no diagnostics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[allow(missing_docs, reason = "a documented value would make the help three lines longer")]
pub enum ListFormat {
    // Text for people.
    Human,
    // JSON for programs.
    Json,
}

/// `koze build`.
#[derive(Debug, Args)]
pub struct Build {
    /// The options for the project.
    #[command(flatten)]
    pub place: ProjectArgs,

    /// Write nothing; show the diff and exit with 1 if anything would change
    #[arg(long, conflicts_with = "dry_run")]
    pub check: bool,

    /// Write nothing; show the diff
    #[arg(long)]
    pub dry_run: bool,

    /// Build again when a file that a build reads changes; stop with Ctrl-C
    #[arg(long, conflicts_with_all = ["check", "dry_run"])]
    pub watch: bool,
}

/// `koze init`.
#[derive(Debug, Args)]
pub struct Init {
    /// The `runtime` directory of a koze checkout, for the dependency on the crate `koze` [default: that of the checkout
    /// that this koze runs from or was built from; a published koze uses the published crate]
    #[arg(long, value_name = "DIR")]
    pub runtime_path: Option<PathBuf>,

    /// The backend of the first sandbox: `native` is koze's own guest in an image of your own, with a Dockerfile to change;
    /// `managed` is the same in containers that the Durable Object starts, a public beta of Cloudflare; `sdk` is Cloudflare's
    /// Sandbox SDK, which gets fixes only until 2026-12-31 [default: sdk]
    #[arg(long, value_name = "BACKEND")]
    pub backend: Option<Backend>,

    /// The options for the project.
    #[command(flatten)]
    pub edit: Edit,
}

/// `koze add`.
#[derive(Debug, Args)]
pub struct Add {
    /// The name of the sandbox or container: that of its file without `.sandbox.rs` or `.container.rs`
    pub name: String,

    /// Add a container that runs a service of its own image, without tools for agents. `--port` is required
    #[arg(long, requires = "port", conflicts_with = "variant")]
    pub container: bool,

    /// The image of the container: a reference such as `wordpress:6.8-apache`, or the path of a Dockerfile relative to the
    /// new file [default: the Dockerfile next to it]
    #[arg(long, requires = "container")]
    pub image: Option<String>,

    /// The port of the service in the container
    #[arg(long, requires = "container", value_parser = clap::value_parser!(u16).range(1..))]
    pub port: Option<u16>,

    /// The backend of the sandbox: `native` is koze's own guest in an image of your own, with a Dockerfile to change;
    /// `managed` is the same in containers that the Durable Object starts, a public beta of Cloudflare; `sdk` is Cloudflare's
    /// Sandbox SDK [default: that of all other sandboxes, else `sdk`]
    #[arg(long, value_name = "BACKEND")]
    pub backend: Option<Backend>,

    /// The variant of the SDK's image, such as `python`; only with the backend `sdk`
    #[arg(long)]
    pub variant: Option<String>,

    /// The directory for the file, below `src` [default: that of the other sandboxes, else `src/server`]
    #[arg(long, value_name = "DIR")]
    pub dir: Option<String>,

    /// The options for the project.
    #[command(flatten)]
    pub edit: Edit,
}

/// `koze rename`.
#[derive(Debug, Args)]
pub struct Rename {
    /// The sandbox or container: the name of its file without `.sandbox.rs` or `.container.rs`, or its class
    pub old: String,

    /// The new name: a file name (`code-interpreter`), or a class name to rename only the class (`CodeInterpreter`)
    pub new: String,

    /// The options for the project.
    #[command(flatten)]
    pub edit: Edit,
}

/// `koze migrate`.
#[derive(Debug, Args)]
pub struct Migrate {
    /// The name of the new sandbox for the class `Sandbox`: that of its file without `.sandbox.rs` [default: `shell`].
    /// With `--backend`, the sandbox to move: the name of its file, or its class [default: all]
    pub name: Option<String>,

    /// Move sandboxes to another backend: `native` is koze's own guest in any image, `managed` is the same in containers that
    /// the Durable Object starts, `sdk` is Cloudflare's Sandbox SDK. Classes, bindings and storage do not change
    #[arg(long, value_name = "BACKEND")]
    pub backend: Option<Backend>,

    /// With `--backend managed`, keep the sandbox as it is, and add another one beside it, whose objects copy the files of the
    /// old ones when they are opened for the first time. Moves one sandbox at a time
    #[arg(long, requires = "backend")]
    pub side_by_side: bool,

    /// Declare the classes in `exports` instead of `migrations`, in every environment. Storage does not change. A Worker that
    /// was deployed with `exports` cannot go back
    #[arg(long, conflicts_with_all = ["name", "backend", "side_by_side"])]
    pub exports: bool,

    /// The options for the project.
    #[command(flatten)]
    pub edit: Edit,
}

/// The backend of a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[allow(missing_docs, reason = "a documented value would make the help three lines longer")]
pub enum Backend {
    Native,
    Managed,
    Sdk,
}

impl From<Backend> for koze_model::Backend {
    fn from(backend: Backend) -> Self {
        match backend {
            Backend::Native => Self::Native,
            Backend::Managed => Self::Managed,
            Backend::Sdk => Self::Sdk,
        }
    }
}

/// `koze doctor`.
#[derive(Debug, Args)]
pub struct Doctor {
    /// Try to escape from sandboxes on this machine instead, with a control for each attempt (Linux only)
    #[arg(long, conflicts_with_all = ["project", "config", "strict"])]
    pub prove: bool,

    /// The options for the project.
    #[command(flatten)]
    pub place: ProjectArgs,
}

/// `koze tools`.
#[derive(Debug, Args)]
pub struct Tools {
    /// The format of the definitions: `openai` is that of Chat Completions, `openai-responses` that of the Responses API
    #[arg(long, value_name = "DIALECT", default_value = "mcp")]
    pub dialect: Dialect,

    /// The families of tools to serve, separated by commas [default: `agent`, or the only family of the project]
    #[arg(long, value_name = "FAMILIES")]
    pub tools: Option<String>,

    /// The options for the project.
    #[command(flatten)]
    pub place: ProjectArgs,
}

/// The format of a tool definition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[allow(missing_docs, reason = "a documented value would make the help three lines longer")]
pub enum Dialect {
    // The Model Context Protocol.
    Mcp,
    // The Messages API.
    Anthropic,
    // The Chat Completions API. Its name has no hyphen.
    #[value(name = "openai")]
    OpenAi,
    // The Responses API.
    #[value(name = "openai-responses")]
    OpenAiResponses,
}

impl From<Dialect> for koze_core::tool::dialect::Dialect {
    fn from(dialect: Dialect) -> Self {
        match dialect {
            Dialect::Mcp => Self::Mcp,
            Dialect::Anthropic => Self::Anthropic,
            Dialect::OpenAi => Self::OpenAi,
            Dialect::OpenAiResponses => Self::OpenAiResponses,
        }
    }
}

/// `koze completions`.
#[derive(Debug, Args)]
pub struct Completions {
    /// The shell that the script is for
    pub shell: clap_complete::Shell,
}

/// The options of the commands that change sources.
#[derive(Debug, Args)]
pub struct Edit {
    /// The options for the project.
    #[command(flatten)]
    pub place: ProjectArgs,

    /// Write nothing; show the diff
    #[arg(long)]
    pub dry_run: bool,
}

/// `koze list`.
#[derive(Debug, Args)]
pub struct List {
    /// Print the egress policy of each sandbox instead: hosts, and the names of credentials
    #[arg(long)]
    pub egress: bool,

    /// The options for the project.
    #[command(flatten)]
    pub place: ProjectArgs,
}

/// `koze explain`.
#[derive(Debug, Args)]
pub struct Explain {
    /// The code, such as `K010`
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
    /// The sandboxes and containers: the names of their files without `.sandbox.rs` or `.container.rs`, or their classes
    #[arg(value_name = "NAME", required = true)]
    pub names: Vec<String>,

    /// Delete the storage of their Durable Objects when the migration is deployed; this cannot be undone
    #[arg(long)]
    pub delete_storage: bool,

    /// Keep the storage of their Durable Objects, behind a plain Durable Object of the same class
    #[arg(long)]
    pub keep_storage: bool,

    /// Also remove the migrations or `exports` entries that create and delete their classes. You confirm that they were
    /// never deployed, which koze cannot check. Cloudflare rejects a first deployment that creates a class and deletes it
    #[arg(long)]
    pub never_deployed: bool,

    /// The options for the project.
    #[command(flatten)]
    pub place: ProjectArgs,

    /// Write nothing; show the diff
    #[arg(long)]
    pub dry_run: bool,
}

/// `koze new`.
#[derive(Debug, Args)]
pub struct New {
    /// The directory to create
    pub dir: PathBuf,

    /// The name of the package [default: that of the directory]
    #[arg(long)]
    pub name: Option<String>,

    /// The backend of the sandbox: `native` is koze's own guest in an image of your own, with a Dockerfile to change;
    /// `managed` is koze's own guest in containers that the Durable Object starts, a public beta of Cloudflare; `sdk` is
    /// Cloudflare's Sandbox SDK, which gets fixes only until 2026-12-31
    #[arg(long, value_name = "BACKEND", default_value = "native")]
    pub backend: Backend,

    /// The `runtime` directory of a koze checkout, for the dependency on the crate `koze` [default: that of the checkout
    /// that this koze runs from or was built from; a published koze uses the published crate]
    #[arg(long, value_name = "DIR")]
    pub runtime_path: Option<PathBuf>,
}
