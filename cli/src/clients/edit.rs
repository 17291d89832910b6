//! Adds a server to the configuration of a client, in place: only the entry of koze changes.

use koze_edit::{Document, Edit, Format, Path, Step, SyntaxError};
use serde_json::Value;

use super::server::{ServerCommand, starts_koze_mcp};
use crate::args::McpClient;
use crate::wrangler::scope::dotted;

/// Where `opencode` 2 has its servers. It also reads those directly below `mcp`, as version 1 does.
const NATIVE: &str = "servers";

/// A part of a configuration that koze does not change.
#[derive(Debug)]
pub(crate) struct Conflict {
    /// The nearest value.
    pub(crate) path: Path,
    /// What is wrong with it.
    pub(crate) message: String,
    /// What the user can do.
    pub(crate) remedy: &'static str,
}

/// Parses a configuration; `None` is a file that does not exist.
///
/// # Errors
/// Returns the first syntax error.
pub(crate) fn parse(client: McpClient, text: Option<&str>) -> Result<Document, SyntaxError> {
    let empty = match client.format() {
        Format::Jsonc => "{\n}\n",
        Format::Toml => "",
    };
    Document::parse(client.format(), text.unwrap_or(empty))
}

/// Returns the text of a configuration with the server `name`. Of an existing entry, only the keys that differ change.
///
/// # Errors
/// Returns a [`Conflict`] if something else is where the entry belongs.
pub(crate) fn with_server(
    document: &Document,
    client: McpClient,
    name: &str,
    server: &ServerCommand,
) -> Result<String, Conflict> {
    let mut path = servers_path(document, client)?;
    path.push(Step::from(name));
    let wanted = client.entry(server);
    let edits = match value_at(document, &path) {
        None => vec![Edit::Set { path, value: wanted }],
        Some(entry) if starts_koze_mcp(&client.argv(entry)) => update_entry(&path, entry, &wanted),
        Some(_) => {
            let message = format!("`{}` does not start `koze mcp`", dotted(&path));
            let remedy = "choose another name for koze's server with `--name`, or remove that entry, then run the command again";
            return Err(Conflict { path, message, remedy });
        }
    };
    Ok(document.apply(&edits))
}

/// Returns the path of the servers, all of whose parts are objects or missing.
fn servers_path(document: &Document, client: McpClient) -> Result<Path, Conflict> {
    let mut path: Path = vec![Step::from(client.key())];
    let servers = value_at(document, &path);
    if client == McpClient::OpenCode && servers.is_some_and(has_native_servers) {
        path.push(Step::from(NATIVE));
    }
    for length in 0..=path.len() {
        let part = &path[..length];
        if value_at(document, part).is_some_and(|value| !value.is_object()) {
            let shown = if part.is_empty() { "the file".to_owned() } else { format!("`{}`", dotted(part)) };
            let message = format!("{shown} is not an object");
            let remedy = "make it an object, or remove it, then run the command again";
            return Err(Conflict { path: part.to_vec(), message, remedy });
        }
    }
    Ok(path)
}

/// Returns whether a value of `mcp` has a map of servers, and not a server with that name.
fn has_native_servers(mcp: &Value) -> bool {
    mcp.get(NATIVE).and_then(Value::as_object).is_some_and(|servers| !servers.contains_key("type"))
}

/// Returns the edits that make an entry of koze the wanted one. Keys that koze does not write stay, and the variables of
/// Codex are only a default.
fn update_entry(path: &Path, entry: &Value, wanted: &Value) -> Vec<Edit> {
    let wanted = wanted.as_object().into_iter().flatten();
    let keys = wanted.filter(|(key, _)| *key != "env_vars" || entry.get("env_vars").is_none());
    let set = |(key, value): (&String, &Value)| {
        let mut path = path.clone();
        path.push(Step::from(key.as_str()));
        Edit::Set { path, value: value.clone() }
    };
    keys.map(set).collect()
}

fn value_at<'d>(document: &'d Document, path: &[Step]) -> Option<&'d Value> {
    path.iter().try_fold(document.value(), |value, step| match step {
        Step::Key(key) => value.get(key),
        Step::Index(index) => value.get(index),
    })
}
