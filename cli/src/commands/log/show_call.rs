//! `koze log show`: all that is recorded of a call.

use std::fmt::Write as _;
use std::process::ExitCode;

use koze_core::journal::CallRecord;
use koze_core::{Code, Error, Result};
use serde::Serialize;
use serde_json::{Value, json};

use super::repeat;
use crate::args::StateArgs;
use crate::commands::call_lines::{escape_hidden, outcome, sandboxes, time, visible};
use crate::commands::local::local_session::{self, failed};
use crate::commands::show;
use crate::provider::{self, CallsQuery, Reached};
use crate::session::{self, State};

/// The names under which the egress journal records scripts and their browser.
const OF_SCRIPTS: [&str; 2] = [Reached::SCRIPTS, Reached::BROWSER];

pub(super) fn run(id: u64, as_json: bool, args: &StateArgs) -> std::result::Result<ExitCode, ExitCode> {
    let state = local_session::state(&args.project, args.state.as_deref())?;
    let call = find_call(&state, id)?;
    let egress = read_egress(&state, &call).map_err(|error| failed(&state.named_in(error)))?;
    let command = repeat::command(&call, args);
    let text = if as_json { in_json(&call, &egress, command) } else { in_words(&call, &egress, command) };
    show::out(&text);
    Ok(ExitCode::SUCCESS)
}

fn find_call(state: &State, id: u64) -> std::result::Result<CallRecord, ExitCode> {
    let query = CallsQuery { id: Some(id), ..CallsQuery::default() };
    let found = provider::read_calls(&state.journal(), &query);
    found.map_err(|error| failed(&state.named_in(error)))?.pop().ok_or_else(|| {
        let message = format!("there is no call {id} in the journal: `koze log` lists the calls");
        failed(&Error::new(Code::NotFound, message))
    })
}

/// Returns what the sandboxes of a call reached and were refused while it ran.
fn read_egress(state: &State, call: &CallRecord) -> Result<Vec<Reached>> {
    let dir = state.sandboxes(&session::session(&call.session)?);
    if !dir.is_dir() {
        return Ok(Vec::new());
    }
    let during = call.time..=call.time.saturating_add(call.duration_ms);
    let is_of_scripts = call.family.as_deref() == Some("script");
    let mut egress = provider::read_egress(&dir)?;
    egress.retain(|entry| {
        let is_used = call.sandboxes.contains(&entry.sandbox)
            || (is_of_scripts && OF_SCRIPTS.contains(&entry.sandbox.as_str()));
        is_used && during.contains(&entry.time)
    });
    Ok(egress)
}

type Repeat = std::result::Result<String, &'static str>;

fn in_words(call: &CallRecord, egress: &[Reached], command: Repeat) -> String {
    let mut text = String::new();
    let mut field = |name: &str, value: &str| {
        let _ = writeln!(text, "{name:9} {}", visible(value));
    };
    field("id", &call.id.to_string());
    field("time", &time(call.time));
    field("session", &call.session);
    field("client", call.client.as_deref().unwrap_or("-"));
    field("family", call.family.as_deref().unwrap_or("-"));
    field("tool", &call.tool);
    field("sandbox", &sandboxes(call));
    field("outcome", &outcome(call));
    field("duration", &format!("{} ms", call.duration_ms));
    for entry in egress {
        let decision = if entry.allowed { "reached" } else { "refused" };
        field("egress", &format!("{decision} {} ({})", entry.target(), entry.rule));
    }
    let input = match &call.input {
        Some(input) => escape_hidden(input.text()),
        None => format!("not recorded ({} bytes)", call.input_bytes),
    };
    field("input", &input);
    if call.input_cut {
        field("", &format!("truncated: the whole input had {} bytes", call.input_bytes));
    }
    let result = match &call.result {
        Some(result) => escape_hidden(&result.to_string()),
        None => format!("not recorded ({} bytes)", call.result_bytes),
    };
    field("result", &result);
    if call.result_cut {
        field("", &format!("truncated: the texts of the whole result had {} bytes", call.result_bytes));
    }
    match command {
        Ok(command) => format!("{text}\nTo repeat it:\n{command}\n"),
        Err(why) => format!("{text}\nThe call cannot be repeated: {why}\n"),
    }
}

#[derive(Serialize)]
struct Shown<'a> {
    #[serde(flatten)]
    call: &'a CallRecord,
    egress: Vec<Value>,
    /// The command that repeats the call.
    command: Option<String>,
}

fn in_json(call: &CallRecord, egress: &[Reached], command: Repeat) -> String {
    let entry = |entry: &Reached| {
        json!({
            "time": entry.time, "sandbox": entry.sandbox, "host": entry.host, "port": entry.port,
            "address": entry.address, "allowed": entry.allowed, "rule": entry.rule, "sni": entry.sni,
        })
    };
    let shown = Shown { call, egress: egress.iter().map(entry).collect(), command: command.ok() };
    let json = serde_json::to_string(&shown).expect("a record is plain data");
    escape_hidden(&json) + "\n"
}
