//! Gemini CLI takes settings from files. Those with the lowest precedence may be in another place, which a variable names.

use std::ffi::OsString;
use std::fs::Permissions;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

use super::launch::Launch;
use crate::args::{McpClient, SERVER};
use crate::clients::edit;
use crate::clients::server::ServerCommand;
use crate::home;
use crate::write::{disk, input};

/// The variable that names the file with the defaults of the machine.
const DEFAULTS: &str = "GEMINI_CLI_SYSTEM_DEFAULTS_PATH";
/// The variable that names the file with the settings of the machine, next to which its defaults are.
const SETTINGS: &str = "GEMINI_CLI_SYSTEM_SETTINGS_PATH";
/// The directory of both without these variables.
const DIRECTORY: &str = "/etc/gemini-cli";
/// The file of the defaults in that directory.
const FILE: &str = "system-defaults.json";

/// Adds the server to a copy of the machine's defaults, in koze's state directory.
pub(super) fn configure(server: &ServerCommand, project: &Path) -> Result<Launch, String> {
    let client = McpClient::Gemini;
    let defaults = find_defaults();
    let shown = defaults.display();
    let given = read_defaults(&defaults).map_err(|error| error.to_string())?;
    let document = edit::parse(client, given.as_deref()).map_err(|error| format!("`{shown}`: {error}"))?;
    let text = edit::with_server(&document, client, SERVER, server);
    let text = text.map_err(|conflict| format!("`{shown}`: {}", conflict.message))?;
    let file = store(project, &text);
    let file = file.map_err(|error| format!("the settings for Gemini CLI cannot be written: {error}"))?;
    Ok(Launch { env: vec![(DEFAULTS, file.into())], ..Launch::default() })
}

/// Returns the path of the machine's defaults, which need not exist.
fn find_defaults() -> PathBuf {
    let named =
        |name: &str| std::env::var_os(name).filter(|path: &OsString| !path.is_empty()).map(PathBuf::from);
    named(DEFAULTS).unwrap_or_else(|| match named(SETTINGS) {
        Some(settings) => settings.with_file_name(FILE),
        None => Path::new(DIRECTORY).join(FILE),
    })
}

fn read_defaults(path: &Path) -> io::Result<Option<String>> {
    match input::read_text(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Stores the settings, which other runs of the same options share. The agent reads them while it runs, after this process has
/// become the agent, so nothing deletes them.
fn store(project: &Path, text: &str) -> io::Result<PathBuf> {
    let digest: [u8; 32] = Sha256::digest(text).into();
    let [first, second, third, fourth, ..] = digest;
    let name = u32::from_be_bytes([first, second, third, fourth]);
    let path = home::file(project, &format!("gemini-{name:08x}.json"))?;
    home::create_dir_of(&path)?;
    // The defaults of the machine may contain secrets.
    let staged = disk::stage(&path, text.as_bytes(), Some(Permissions::from_mode(0o600)))?;
    disk::rename(&staged, &path)?;
    Ok(path)
}
