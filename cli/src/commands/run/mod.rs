//! `koze run`: starts an agent that has the tools of this machine's sandboxes, without changing its files.

mod gemini;
mod launch;
mod opencode;

use std::ffi::OsStr;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, ExitCode};

use self::launch::Launch;
use super::mcp::offer;
use super::programs::{CANNOT_RUN, KOZE_FAILED, NO_PROGRAM};
use super::show;
use crate::args::{self, McpClient};
use crate::clients::Locating;
use crate::clients::server::{ServerCommand, own_path};
use crate::discover::Project;

/// The programs that koze knows, and what each is.
const AGENTS: [(&str, McpClient); 7] = [
    ("claude", McpClient::ClaudeCode),
    ("codex", McpClient::Codex),
    ("gemini", McpClient::Gemini),
    ("opencode", McpClient::OpenCode),
    ("cursor-agent", McpClient::Cursor),
    ("cursor", McpClient::Cursor),
    ("code", McpClient::VsCode),
];

pub(super) fn run(args: &args::RunAgent) -> Result<ExitCode, ExitCode> {
    let failed = |_| ExitCode::from(KOZE_FAILED);
    let (program, rest) = args.argv.split_first().expect("the arguments are required");
    let refuse = |why: String| failed(show::usage(&why));
    let client = find_client(program).map_err(refuse)?;
    let (project, server) = prepare(args, client).map_err(failed)?;
    let launch = Launch::new(client, program, &server, &project.dir).map_err(refuse)?;
    // The agent takes the place of this process: its streams, its terminal, its signals and its exit code are its own.
    let error = Command::new(program).args(&launch.args).args(rest).envs(launch.env).exec();
    Err(report_unstarted(program, &error))
}

/// Returns which client a program is.
fn find_client(program: &OsStr) -> Result<McpClient, String> {
    let name = Path::new(program).file_name().unwrap_or(program);
    let known = AGENTS.iter().find(|(agent, _)| name == *agent);
    known.map(|(_, client)| *client).ok_or_else(|| {
        format!(
            "koze does not know the agent `{}`: it starts `claude`, `codex`, `gemini` and `opencode`. For another one, add what `koze mcp --print-config json` prints to its configuration",
            name.display()
        )
    })
}

/// Finds the project, which must be able to serve, and the command for it. Shows errors.
fn prepare(args: &args::RunAgent, client: McpClient) -> Result<(Project, ServerCommand), ExitCode> {
    let project = offer::find_servable(&args.session, &args.offer)?;
    let server = own_path().and_then(|program| {
        let server =
            ServerCommand::new(program, Locating::AbsolutePath, &project.dir, &args.session, &args.offer)?;
        server.check_variables(client).map(|()| server)
    });
    Ok((project, server.map_err(|error| show::failure(&error.to_string()))?))
}

/// Says why an agent did not start.
fn report_unstarted(program: &OsStr, error: &io::Error) -> ExitCode {
    let program = program.display();
    if error.kind() == io::ErrorKind::NotFound {
        show::failure(&format!("there is no program `{program}`: install it, or correct the name"));
        return ExitCode::from(NO_PROGRAM);
    }
    show::failure(&format!("`{program}` cannot be started: {error}"));
    ExitCode::from(CANNOT_RUN)
}
