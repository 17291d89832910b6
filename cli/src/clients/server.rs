//! The command that a client starts: `koze mcp`, with the options that the user gave.

use std::io;
use std::path::Path;

use clap::ValueEnum as _;

use super::Locating;
use crate::args::{McpClient, OfferArgs, SESSION, SessionArgs};

/// The name of this program.
pub(crate) const PROGRAM: &str = "koze";

/// The command that serves the tools.
const COMMAND: &str = "mcp";

/// A command that serves the tools on standard input and output.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServerCommand {
    pub(crate) program: String,
    pub(crate) args: Vec<String>,
}

impl ServerCommand {
    /// Returns the command for a project, whose directory is absolute.
    ///
    /// # Errors
    /// Returns an error if a path is not UTF-8, which no configuration can contain.
    pub(crate) fn new(
        program: String,
        locating: Locating,
        project: &Path,
        session: &SessionArgs,
        offer: &OfferArgs,
    ) -> io::Result<Self> {
        let mut command = ServerCommand { program, args: vec![COMMAND.to_owned()] };
        // A project that the user named stays named: the client may start elsewhere.
        match locating {
            _ if session.project != Path::new(".") => command.push("--project", to_text(project)?),
            Locating::WorkingDirectory => {}
            Locating::Variable(variable) => command.push("--project", variable.to_owned()),
            Locating::AbsolutePath => command.push("--project", to_text(project)?),
        }
        for (option, path) in [("--config", &session.config), ("--state", &session.state)] {
            if let Some(path) = path {
                command.push(option, to_text(&std::path::absolute(path)?)?);
            }
        }
        if session.session != SESSION {
            command.push("--session", session.session.clone());
        }
        if let Some(tools) = &offer.tools {
            command.push("--tools", tools.clone());
        }
        if let Some(image) = offer.image.and_then(|image| image.to_possible_value()) {
            command.push("--image", image.get_name().to_owned());
        }
        if let Some(engine) = session.engine.and_then(|engine| engine.to_possible_value()) {
            command.push("--engine", engine.get_name().to_owned());
        }
        Ok(command)
    }

    /// Checks that the client starts this command, and not one in which it has replaced variables.
    ///
    /// # Errors
    /// Returns an error that names what would be replaced.
    pub(crate) fn check_variables(&self, client: McpClient) -> io::Result<()> {
        let starts: &[&str] = match client {
            McpClient::ClaudeCode | McpClient::Cursor | McpClient::VsCode => &["${"],
            McpClient::Gemini => &["$"],
            McpClient::OpenCode => &["{env:", "{file:"],
            McpClient::Codex | McpClient::Json => &[],
        };
        let meant = match client.locating() {
            Locating::Variable(variable) => Some(variable),
            _ => None,
        };
        let words = self.argv().into_iter().filter(|word| Some(*word) != meant);
        for word in words {
            if let Some(start) = starts.iter().find(|start| word.contains(**start)) {
                let message = format!(
                    "`{word}` contains `{start}`, with which {} begins a variable: use a path and names without it",
                    client.title()
                );
                return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
            }
        }
        Ok(())
    }

    fn push(&mut self, option: &str, value: String) {
        if value.starts_with('-') {
            self.args.push(format!("{option}={value}"));
        } else {
            self.args.extend([option.to_owned(), value]);
        }
    }

    /// Returns the program and its arguments.
    pub(crate) fn argv(&self) -> Vec<&str> {
        [&self.program].into_iter().chain(&self.args).map(String::as_str).collect()
    }
}

/// Returns whether these words start a server of koze.
pub(super) fn starts_koze_mcp(argv: &[&str]) -> bool {
    let [program, command, ..] = argv else { return false };
    Path::new(program).file_stem().is_some_and(|name| name == PROGRAM) && *command == COMMAND
}

/// Returns the name of this program if the PATH leads to one of that name, or else its path.
///
/// # Errors
/// Returns an error if the system does not say where this program is, or the path is not UTF-8.
pub(crate) fn find_program() -> io::Result<String> {
    if crate::doctor::tools::on_path(PROGRAM) { Ok(PROGRAM.to_owned()) } else { own_path() }
}

/// Returns the path of this program.
///
/// # Errors
/// As [`find_program`].
pub(crate) fn own_path() -> io::Result<String> {
    to_text(&std::env::current_exe()?)
}

fn to_text(path: &Path) -> io::Result<String> {
    path.to_str().map(str::to_owned).ok_or_else(|| {
        let message = format!("`{}` is not UTF-8, so no configuration can name it", path.display());
        io::Error::new(io::ErrorKind::InvalidData, message)
    })
}
