//! `koze call` and `koze log` on a server.

use std::process::ExitCode;
use std::thread::sleep;
use std::time::Duration;

use koze_client::Session;
use koze_core::journal::PageRequest;

use super::report_error;
use crate::args;
use crate::commands::{call_input, call_lines, show, since};

/// How many calls are requested at once.
const PAGE: u64 = 1000;
/// How often new calls are looked for.
const POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Runs `koze call`.
pub(super) fn call(session: &Session, args: &args::Call) -> Result<ExitCode, ExitCode> {
    if args.agent.agent.is_some() {
        return Err(show::usage("--agent: a server has one agent for each session: use --session instead"));
    }
    let input = match call_input::parse(&args.input)? {
        Ok(input) => input,
        Err(error) => {
            show::out(&format!("{error}\n"));
            return Ok(ExitCode::from(1));
        }
    };
    let called = session.call(&args.tool, input.text(), args.offer.tools.as_deref());
    let result = called.map_err(|error| report_error(&error))?;
    show::out(&format!("{}\n", result.content));
    Ok(ExitCode::from(u8::from(result.is_error)))
}

/// Runs `koze log`.
pub(super) fn log(session: &Session, args: &args::Log) -> Result<ExitCode, ExitCode> {
    if args.action.is_some() {
        return Err(show::usage(
            "`koze log show` reads the journal of this machine: use `koze log --json` with --url",
        ));
    }
    let since = args.since.as_deref().map(since::parse).transpose().map_err(|why| show::usage(&why))?;
    let mut request = PageRequest { since: None, limit: PAGE };
    let mut is_first = true;
    loop {
        let page = session.calls(request).map_err(|error| report_error(&error))?;
        let is_read = call_lines::print(&page.calls, args, since, is_first);
        if !is_read || !args.follow {
            if page.calls.len() as u64 == PAGE {
                show::err(&format!("koze: these are the newest {PAGE} calls: a server may have more\n"));
            }
            return Ok(ExitCode::SUCCESS);
        }
        is_first = false;
        request.since = Some(page.next);
        sleep(POLL_INTERVAL);
    }
}
