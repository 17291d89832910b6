//! `koze call`: runs one tool call from a shell.

use std::io::Read as _;
use std::process::ExitCode;

use koze_core::tool::{All, Catalog, Family, Input, ReadError, ToolResult};

use super::local_session::{self, LocalSession};
use super::show;
use crate::args;

pub(super) fn run(args: &args::Call) -> Result<ExitCode, ExitCode> {
    let input = match parse_input(&args.input)? {
        Ok(input) => input,
        Err(error) => {
            show::out(&format!("{error}\n"));
            return Ok(ExitCode::from(1));
        }
    };
    let session = LocalSession::of_agent(&args.agent, &args.session)?;
    let profiles = local_session::profiles(&args.session)?;
    let toolset = args.tools.as_deref();
    // An unknown toolset starts no supervisor.
    let catalog =
        Catalog::<All>::select(&profiles, toolset).map_err(|error| local_session::failed(&error))?;
    if args.agent.agent.is_some() && catalog.families() != [Family::Script] {
        return Err(show::usage(
            "--agent selects an agent of the tools `script`: add `--tools script`, or use --session",
        ));
    }
    let reply = local_session::wait(session.client().call(profiles, toolset, &args.tool, input))?;
    if let Err(error) = &reply {
        local_session::note(error);
    }
    let result = ToolResult::from(reply);
    show::out(&format!("{}\n", result.content));
    Ok(ExitCode::from(u8::from(result.is_error)))
}

/// Parses the input as JSON, or returns the tool's error for invalid JSON. `-` reads standard input.
fn parse_input(text: &str) -> Result<koze_core::Result<Input>, ExitCode> {
    let read = match text {
        "-" => {
            let mut read = String::new();
            let done = std::io::stdin().lock().read_to_string(&mut read);
            done.map_err(|error| show::usage(&format!("standard input cannot be read: {error}")))?;
            read
        }
        text => text.to_owned(),
    };
    match Input::read(read.as_bytes()).map_err(ReadError::into_tool_error) {
        Ok(input) => Ok(Ok(input)),
        Err(Ok(error)) => Ok(Err(error)),
        Err(Err(error)) => Err(show::usage(&format!(
            "the input is not valid JSON: {error}. Example: '{{\"command\": \"ls\"}}'"
        ))),
    }
}
