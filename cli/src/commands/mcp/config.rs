//! `koze mcp --print-config` and `--write`: the configuration with which a client starts the server.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use koze_edit::Document;

use super::offer;
use crate::args::{self, McpClient};
use crate::build::{interrupted, lock_directory};
use crate::clients::edit::{self, Conflict};
use crate::clients::server::{PROGRAM, ServerCommand, find_program};
use crate::commands::show;
use crate::discover::Project;
use crate::finding::{Findings, Place, Stop};
use crate::paths;
use crate::rules::Rule;
use crate::write::{self, Action, Change, beneath, input};

/// Prints the configuration to standard output.
pub(super) fn print(args: &args::Mcp, client: McpClient) -> Result<ExitCode, ExitCode> {
    let (project, server) = prepare(args, client)?;
    let document = edit::parse(client, None).expect("an empty configuration parses");
    let text = edit::with_server(&document, client, &args.name, &server).expect("nothing is in the way");
    show::out(&text);
    show::err(&describe_file(&project, client));
    note_program(&server);
    Ok(ExitCode::SUCCESS)
}

/// Says so if the configuration does not work on another machine.
fn note_program(server: &ServerCommand) {
    if server.program != PROGRAM {
        show::err("note: `koze` is not on your PATH, so the configuration has the path of this program\n");
    }
}

/// Says where the printed configuration belongs.
fn describe_file(project: &Project, client: McpClient) -> String {
    let Some(file) = choose_file(&project.dir, client) else {
        return "note: this is for a client that reads `mcpServers`; its documentation names the file\n"
            .to_owned();
    };
    let elsewhere =
        if client == McpClient::Codex { ", or in `~/.codex/config.toml` for all projects" } else { "" };
    format!("note: {} reads this in `{}`{elsewhere}\n", client.title(), file.display())
}

/// Adds the configuration to the client's file.
pub(super) fn write(args: &args::Mcp, client: McpClient) -> Result<ExitCode, ExitCode> {
    if client == McpClient::Json {
        return Err(show::usage(
            "`json` has no file of its own: run `koze mcp --print-config json`, and add what it prints to the file of your client",
        ));
    }
    let (project, server) = prepare(args, client)?;
    let mut findings = Findings::new(false);
    let written = write_file(&project, client, &args.name, &server, &mut findings);
    show::findings(&findings);
    let (shown, action) = written.map_err(|Stop| ExitCode::FAILURE)?;
    let effect = format!("{} starts `koze mcp` as the server `{}`", client.title(), args.name);
    show::out(&match action {
        Action::Create => format!("created {shown}: {effect}\n"),
        Action::Update => format!("updated {shown}: {effect}\n"),
        Action::Unchanged | Action::Remove => format!("nothing to do: in {shown}, {effect}\n"),
    });
    note_program(&server);
    Ok(ExitCode::SUCCESS)
}

/// Finds the project, which must be able to serve, and the command for it. Shows errors.
fn prepare(args: &args::Mcp, client: McpClient) -> Result<(Project, ServerCommand), ExitCode> {
    let project = offer::find_servable(&args.session, &args.offer)?;
    let server = find_program().and_then(|program| {
        let server =
            ServerCommand::new(program, client.locating(), &project.dir, &args.session, &args.offer)?;
        server.check_variables(client).map(|()| server)
    });
    Ok((project, server.map_err(|error| show::failure(&error.to_string()))?))
}

/// Edits the file, completely or not at all. Returns its path in messages, and what was done.
fn write_file(
    project: &Project,
    client: McpClient,
    name: &str,
    server: &ServerCommand,
    findings: &mut Findings,
) -> Result<(String, Action), Stop> {
    let _lock = lock_directory(&project.dir, findings)?;
    let path = choose_file(&project.dir, client).expect("the client has a file");
    let shown = paths::relative(&path, &project.dir);
    let before = match read_file(&project.dir, &path) {
        Ok(before) => before,
        Err(error) => return findings.io(&error),
    };
    let Ok(text) = before.clone().map(String::from_utf8).transpose() else {
        let message = "it is not UTF-8".to_owned();
        return findings.fail(Rule::ClientSyntax { message }, Some(Place::file(shown)));
    };
    let document = match edit::parse(client, text.as_deref()) {
        Ok(document) => document,
        Err(error) => {
            let text = Arc::from(text.unwrap_or_default());
            let place = Place { file: shown, text, range: Some(error.range) };
            return findings.fail(Rule::ClientSyntax { message: error.message }, Some(place));
        }
    };
    let after = match edit::with_server(&document, client, name, server) {
        Ok(after) => after.into_bytes(),
        Err(conflict) => return report_conflict(conflict, &document, shown, findings),
    };
    let change = match Change::since(&project.dir, &path, shown.clone(), before, Some(after)) {
        Ok(change) => change,
        Err(error) => return findings.io(&error),
    };
    let action = change.action();
    match write::apply(&project.dir, &[change]) {
        Ok(()) => Ok((shown, action)),
        Err(failed) => interrupted(failed, findings),
    }
}

/// Returns the client's file that exists, or else the preferred one.
fn choose_file(dir: &Path, client: McpClient) -> Option<PathBuf> {
    let files: Vec<PathBuf> = client.files().iter().map(|file| dir.join(file)).collect();
    let existing = files.iter().find(|file| file.symlink_metadata().is_ok());
    existing.or(files.first()).cloned()
}

/// Reads a file in the project; `None` if it does not exist.
fn read_file(root: &Path, path: &Path) -> io::Result<Option<Vec<u8>>> {
    match input::read(&beneath::resolve(root, path)?) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn report_conflict<T>(
    conflict: Conflict,
    document: &Document,
    file: String,
    findings: &mut Findings,
) -> Result<T, Stop> {
    let Conflict { path, message, remedy } = conflict;
    let range = document.key_range(&path).or_else(|| document.range(&path));
    let place = Place { file, text: Arc::from(document.text()), range };
    findings.fail(Rule::ClientEntry { message, remedy }, Some(place))
}
