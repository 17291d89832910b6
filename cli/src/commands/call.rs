//! `koze call`: runs one tool call from a shell.

use std::process::ExitCode;

use koze_core::tool::{All, Catalog, Family, ToolResult};

use super::local_session::{self, LocalSession};
use super::{call_input, show};
use crate::args;

pub(super) fn run(args: &args::Call) -> Result<ExitCode, ExitCode> {
    let input = match call_input::parse(&args.input)? {
        Ok(input) => input,
        Err(error) => {
            show::out(&format!("{error}\n"));
            return Ok(ExitCode::from(1));
        }
    };
    let session = LocalSession::of_agent(&args.agent, &args.session)?;
    let profiles = local_session::profiles_on(&args.session, args.offer.image)?;
    let toolset = args.offer.tools.as_deref();
    // An unknown toolset starts no supervisor.
    let catalog =
        Catalog::<All>::select(&profiles, toolset).map_err(|error| local_session::failed(&error))?;
    if args.agent.agent.is_some() && catalog.families() != [Family::Script] {
        return Err(show::usage(
            "--agent selects an agent of the tools `script`: add `--tools script`, or use --session",
        ));
    }
    let reply =
        local_session::wait(session.client().named("koze call").call(profiles, toolset, &args.tool, input))?;
    if let Err(error) = &reply {
        local_session::note(error);
    }
    let result = ToolResult::from(reply);
    show::out(&format!("{}\n", result.content));
    Ok(ExitCode::from(u8::from(result.is_error)))
}
