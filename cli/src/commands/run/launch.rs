//! How each agent takes a server for one run.
//!
//! | agent | takes it from |
//! |---|---|
//! | Claude Code | `--mcp-config`, in addition to the servers of its files |
//! | Codex | `-c`, which overrides a key of its configuration |
//! | Gemini CLI | `GEMINI_CLI_SYSTEM_DEFAULTS_PATH`, the settings with the lowest precedence |
//! | `opencode` 1 | `OPENCODE_CONFIG_CONTENT`, the configuration with the highest precedence |
//! | Cursor, VS Code | its files only |

use std::ffi::{OsStr, OsString};
use std::path::Path;

use clap::ValueEnum as _;
use serde_json::{Map, Value};

use super::{gemini, opencode};
use crate::args::{McpClient, SERVER};
use crate::clients::server::ServerCommand;

/// What is added to the command line and the environment of an agent.
#[derive(Debug, Default)]
pub(super) struct Launch {
    /// The arguments before those of the user.
    pub(super) args: Vec<OsString>,
    pub(super) env: Vec<(&'static str, OsString)>,
}

impl Launch {
    /// Prepares the start of an agent.
    ///
    /// # Errors
    /// Returns an error if the agent takes servers only from its files, or from something that the user has set and koze
    /// cannot add to.
    pub(super) fn new(
        client: McpClient,
        program: &OsStr,
        server: &ServerCommand,
        project: &Path,
    ) -> Result<Self, String> {
        match client {
            McpClient::ClaudeCode => Ok(Launch { args: vec![configure_claude(server)], ..Launch::default() }),
            McpClient::Codex => Ok(Launch { args: configure_codex(server), ..Launch::default() }),
            McpClient::Gemini => gemini::configure(server, project),
            McpClient::OpenCode => opencode::configure(program, server),
            McpClient::Cursor | McpClient::VsCode | McpClient::Json => Err(refuse(client)),
        }
    }
}

fn refuse(client: McpClient) -> String {
    let title = client.title();
    let name = client.to_possible_value().expect("a client has a name");
    let name = name.get_name();
    format!(
        "{title} takes servers only from its files: run `koze mcp --write {name}`, then start it without koze"
    )
}

/// Returns the option with the configuration. It takes any number of values, so a value of its own would take in the
/// prompt after it.
fn configure_claude(server: &ServerCommand) -> OsString {
    let client = McpClient::ClaudeCode;
    let servers = Map::from_iter([(SERVER.to_owned(), client.entry(server))]);
    let config = Value::from(Map::from_iter([(client.key().to_owned(), Value::from(servers))]));
    format!("--mcp-config={config}").into()
}

/// Returns the options that set the keys of the entry. A value is TOML.
fn configure_codex(server: &ServerCommand) -> Vec<OsString> {
    let client = McpClient::Codex;
    let Value::Object(entry) = client.entry(server) else { return Vec::new() };
    let options = entry.iter().flat_map(|(key, value)| {
        [OsString::from("-c"), format!("{}.{SERVER}.{key}={}", client.key(), to_toml(value)).into()]
    });
    options.collect()
}

/// Converts a text, or a list of texts.
fn to_toml(value: &Value) -> toml_edit::Value {
    match value {
        Value::Array(list) => list.iter().map(to_toml).collect(),
        value => value.as_str().unwrap_or_default().into(),
    }
}
