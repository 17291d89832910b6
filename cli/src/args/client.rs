//! The clients of the Model Context Protocol, and `koze run`, which starts one.

use std::ffi::OsString;

use clap::{Args, ValueEnum};

use super::{OfferArgs, SessionArgs};

/// A client whose configuration koze writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[allow(missing_docs, reason = "a documented value would make the help six lines longer")]
pub enum McpClient {
    ClaudeCode,
    Codex,
    Cursor,
    #[value(name = "vscode")]
    VsCode,
    Gemini,
    #[value(name = "opencode")]
    OpenCode,
    // Any client that reads `mcpServers`.
    Json,
}

/// `koze run`.
#[derive(Debug, Args)]
pub struct RunAgent {
    /// What is served.
    #[command(flatten)]
    pub offer: OfferArgs,

    /// The agent, `claude`, `codex`, `gemini` or `opencode`, and its arguments
    #[arg(value_name = "ARGV", last = true, required = true)]
    pub argv: Vec<OsString>,

    /// The options for the project.
    #[command(flatten)]
    pub session: SessionArgs,
}
