//! `koze log`: the journal of tool calls on this machine. It is read as it is, without a supervisor.

mod repeat;
mod show_call;

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use koze_core::Result;

use super::local_session::{self, failed};
use super::{call_lines, show, since};
use crate::args::{self, LogAction};
use crate::provider::{self, CallsQuery};

/// How often new calls are looked for.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

pub(super) fn run(args: &args::Log) -> std::result::Result<ExitCode, ExitCode> {
    if let Some(LogAction::Show { id, json, state }) = &args.action {
        return show_call::run(*id, *json, state);
    }
    let since = args.since.as_deref().map(since::parse).transpose().map_err(|why| show::usage(&why))?;
    let state = local_session::state(&args.state.project, args.state.state.as_deref())?;
    print_calls(args, since, &state.journal()).map_err(|error| failed(&state.named_in(error)))?;
    Ok(ExitCode::SUCCESS)
}

/// Prints the calls since a time in milliseconds since 1970, and new ones until the reader is gone if they are followed.
fn print_calls(args: &args::Log, since: Option<u64>, journal: &Path) -> Result<()> {
    let mut query = CallsQuery { session: args.session.clone(), ..CallsQuery::default() };
    let mut is_first = true;
    loop {
        let calls = provider::read_calls(journal, &query)?;
        if !call_lines::print(&calls, args, since, is_first) || !args.follow {
            return Ok(());
        }
        is_first = false;
        let last = calls.last().map_or(query.after.unwrap_or(0), |call| call.id);
        query.after = Some(last);
        std::thread::sleep(POLL_INTERVAL);
    }
}
