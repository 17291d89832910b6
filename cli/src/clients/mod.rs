//! The clients of the Model Context Protocol that koze configures: which file each reads, and how it writes a server.
//!
//! | module | job |
//! |---|---|
//! | `server` | the command that a client starts |
//! | `edit` | adds it to a configuration, in place |

pub(crate) mod edit;
pub(crate) mod server;

use koze_edit::Format;
use serde_json::{Value, json};

use self::server::ServerCommand;
use crate::args::McpClient;

/// The variables of the environment that `koze mcp` reads. Codex passes on only those that it is told to.
const VARIABLES: [&str; 2] = ["XDG_STATE_HOME", "KOZE_SUPERVISOR_IDLE_MS"];

/// How `koze mcp` learns which project it serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Locating {
    /// The client starts it in the project.
    WorkingDirectory,
    /// The client replaces this variable by the project's directory.
    Variable(&'static str),
    /// The client starts it anywhere, so the configuration has the absolute path.
    AbsolutePath,
}

impl McpClient {
    /// Returns its name in messages.
    pub(crate) fn title(self) -> &'static str {
        match self {
            McpClient::ClaudeCode => "Claude Code",
            McpClient::Codex => "Codex",
            McpClient::Cursor => "Cursor",
            McpClient::VsCode => "VS Code",
            McpClient::Gemini => "Gemini CLI",
            McpClient::OpenCode => "OpenCode",
            McpClient::Json => "the client",
        }
    }

    /// Returns the files in the project that it reads, the preferred one first.
    pub(crate) fn files(self) -> &'static [&'static str] {
        match self {
            McpClient::ClaudeCode => &[".mcp.json"],
            McpClient::Codex => &[".codex/config.toml"],
            McpClient::Cursor => &[".cursor/mcp.json"],
            McpClient::VsCode => &[".vscode/mcp.json"],
            McpClient::Gemini => &[".gemini/settings.json"],
            McpClient::OpenCode => &["opencode.json", "opencode.jsonc"],
            McpClient::Json => &[],
        }
    }

    /// Returns the syntax of its files.
    pub(crate) fn format(self) -> Format {
        if self == McpClient::Codex { Format::Toml } else { Format::Jsonc }
    }

    /// Returns how its server learns which project it serves.
    pub(crate) fn locating(self) -> Locating {
        match self {
            McpClient::ClaudeCode | McpClient::VsCode | McpClient::Gemini | McpClient::OpenCode => {
                Locating::WorkingDirectory
            }
            McpClient::Cursor => Locating::Variable("${workspaceFolder}"),
            // Codex does not document where it starts servers.
            McpClient::Codex | McpClient::Json => Locating::AbsolutePath,
        }
    }

    /// Returns the key of its servers.
    pub(crate) fn key(self) -> &'static str {
        match self {
            McpClient::ClaudeCode | McpClient::Cursor | McpClient::Gemini | McpClient::Json => "mcpServers",
            McpClient::Codex => "mcp_servers",
            McpClient::VsCode => "servers",
            McpClient::OpenCode => "mcp",
        }
    }

    /// Returns the entry of a server.
    pub(crate) fn entry(self, server: &ServerCommand) -> Value {
        let ServerCommand { program, args } = server;
        match self {
            McpClient::ClaudeCode | McpClient::Gemini | McpClient::Json => {
                json!({ "command": program, "args": args })
            }
            McpClient::Cursor | McpClient::VsCode => {
                json!({ "type": "stdio", "command": program, "args": args })
            }
            McpClient::Codex => json!({ "command": program, "args": args, "env_vars": VARIABLES }),
            McpClient::OpenCode => json!({ "type": "local", "command": server.argv() }),
        }
    }

    /// Returns the words that an entry of this client starts.
    fn argv(self, entry: &Value) -> Vec<&str> {
        let words = |key: &str| entry[key].as_array().into_iter().flatten().filter_map(Value::as_str);
        match self {
            McpClient::OpenCode => words("command").collect(),
            _ => entry["command"].as_str().into_iter().chain(words("args")).collect(),
        }
    }
}
