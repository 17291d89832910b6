//! Version 1 of `opencode` takes a configuration from its environment. Version 2 connects to a server in the background, which
//! has the environment of the command that started it.

use std::ffi::OsStr;
use std::path::Path;
use std::process::Command;

use super::launch::Launch;
use crate::args::{McpClient, SERVER};
use crate::clients::edit;
use crate::clients::server::ServerCommand;
use crate::doctor::tools;

/// The variable with a configuration, as text.
const CONTENT: &str = "OPENCODE_CONFIG_CONTENT";

/// Adds the server to the configuration in the environment.
pub(super) fn configure(program: &OsStr, server: &ServerCommand) -> Result<Launch, String> {
    check_version(program)?;
    let given = std::env::var_os(CONTENT).filter(|text| !text.is_empty());
    let given =
        given.map(|text| text.into_string().map_err(|_| format!("{CONTENT} is not UTF-8"))).transpose()?;
    let client = McpClient::OpenCode;
    let document = edit::parse(client, given.as_deref()).map_err(|error| format!("{CONTENT}: {error}"))?;
    let text = edit::with_server(&document, client, SERVER, server);
    let text = text.map_err(|conflict| format!("{CONTENT}: {}", conflict.message))?;
    Ok(Launch { env: vec![(CONTENT, text.into())], ..Launch::default() })
}

/// Checks that the program reads the variable. A missing one is reported when it is started.
fn check_version(program: &OsStr) -> Result<(), String> {
    if is_missing(program) {
        return Ok(());
    }
    let advice = "run `koze mcp --write opencode`, then start it without koze";
    let Some(line) = tools::output_line(Command::new(program).arg("--version")) else {
        return Err(format!(
            "`{} --version` prints no version, and OpenCode 2 takes servers only from its files: {advice}",
            program.display()
        ));
    };
    match major_version(&line) {
        Some(0 | 1) => Ok(()),
        Some(_) => Err(format!("OpenCode {line} takes servers only from its files: {advice}")),
        None => Err(format!(
            "`{} --version` printed `{line}`, which is not a version: {advice}",
            program.display()
        )),
    }
}

fn is_missing(program: &OsStr) -> bool {
    match program.to_str().filter(|name| !name.contains('/')) {
        Some(name) => !tools::on_path(name),
        None => !Path::new(program).exists(),
    }
}

/// Returns the first number of a line such as `1.18.31` or `v1.18.31`.
fn major_version(line: &str) -> Option<u64> {
    line.trim_start_matches('v').split('.').next()?.parse().ok()
}
