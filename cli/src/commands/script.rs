//! `koze script`: scripts of agents, for people.

use std::io::Read as _;
use std::path::Path;
use std::process::ExitCode;

use koze_core::tool::{Content, Reply};
use koze_core::{Code, Error};
use serde_json::{Value, json};

use super::local_session::{self, LocalSession};
use super::show;
use super::table::table;
use super::time::time;
use crate::args::{self, AgentArgs, ListFormat, ScriptAction, SessionArgs};

/// The toolset.
const TOOLSET: &str = "script";

pub(super) fn run(args: &args::Script) -> Result<ExitCode, ExitCode> {
    match &args.action {
        ScriptAction::Run { file, agent, session } => run_file(file, agent, session),
        ScriptAction::Tools { format, agent, session } => list_tools(*format, agent, session),
        ScriptAction::Libs { format, agent, session } => list_libraries(*format, agent, session),
    }
}

/// Calls a tool that returns JSON. Returns whether it is an error, too.
fn call_tool(
    agent: &AgentArgs,
    args: &SessionArgs,
    tool: &str,
    input: Value,
) -> Result<(Value, bool), ExitCode> {
    let session = LocalSession::of_agent(agent, args)?;
    let profiles = local_session::profiles(args)?;
    let reply = local_session::wait(session.client().named("koze script").call(
        profiles,
        Some(TOOLSET),
        tool,
        input,
    ))?;
    let Reply { content, is_error } = reply.map_err(|error| local_session::failed(&error))?;
    if let Content::Json(value) = content {
        return Ok((value, is_error));
    }
    let error = Error::new(Code::Internal, format!("`{tool}` has an unexpected result"));
    Err(local_session::failed(&error))
}

fn run_file(file: &Path, agent: &AgentArgs, args: &SessionArgs) -> Result<ExitCode, ExitCode> {
    let code = read_code(file)
        .map_err(|error| show::usage(&format!("{} cannot be read: {error}", file.display())))?;
    let (done, is_error) = call_tool(agent, args, "run_sandbox_code", json!({ "code": code }))?;
    for line in done["logs"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        show::err(&format!("{line}\n"));
    }
    if is_error {
        show::err(&format!(
            "error: {}{}\n",
            done["error"].as_str().unwrap_or_default(),
            failure_location(&done, file)
        ));
        return Ok(ExitCode::FAILURE);
    }
    show::out(&format!("{:#}\n", done["result"]));
    Ok(ExitCode::SUCCESS)
}

/// Returns where a script failed, to be appended to its error.
fn failure_location(failure: &Value, file: &Path) -> String {
    let (Some(line), Some(column)) = (failure["line"].as_u64(), failure["column"].as_u64()) else {
        return String::new();
    };
    let of = failure["library"]
        .as_str()
        .map_or_else(|| file.display().to_string(), |name| format!("library {name}"));
    format!(" ({of}:{line}:{column})")
}

fn read_code(file: &Path) -> std::io::Result<String> {
    if file == Path::new("-") {
        let mut text = String::new();
        std::io::stdin().lock().read_to_string(&mut text)?;
        return Ok(text);
    }
    std::fs::read_to_string(file)
}

fn list_tools(format: ListFormat, agent: &AgentArgs, args: &SessionArgs) -> Result<ExitCode, ExitCode> {
    let (listed, _) = call_tool(agent, args, "list_tools", json!({ "include_disabled": true }))?;
    let row = |tool: &Value| {
        let state = if tool["enabled"] == true { "enabled" } else { "disabled" };
        let [name, version, updated, description] = common_columns(tool);
        [name, version, state.to_owned(), updated, description]
    };
    let head = ["TOOL", "VERSION", "STATE", "UPDATED", "DESCRIPTION"];
    show_list(format, &listed, "tools", |list| table(head, list.iter().map(row)));
    Ok(ExitCode::SUCCESS)
}

fn list_libraries(format: ListFormat, agent: &AgentArgs, args: &SessionArgs) -> Result<ExitCode, ExitCode> {
    let (listed, _) = call_tool(agent, args, "list_libraries", json!({}))?;
    let head = ["LIBRARY", "VERSION", "UPDATED", "DESCRIPTION"];
    show_list(format, &listed, "libraries", |list| table(head, list.iter().map(common_columns)));
    Ok(ExitCode::SUCCESS)
}

fn common_columns(entry: &Value) -> [String; 4] {
    let text = |key: &str| entry[key].as_str().unwrap_or_default().to_owned();
    let updated = time(entry["updated"].as_u64().unwrap_or_default());
    [text("name"), entry["version"].to_string(), updated, text("description")]
}

fn show_list(format: ListFormat, listed: &Value, key: &str, shown: impl Fn(&[Value]) -> String) {
    match (format, listed[key].as_array().map_or(&[][..], Vec::as_slice)) {
        (ListFormat::Json, _) => show::out(&format!("{listed:#}\n")),
        (ListFormat::Human, []) => {
            show::out(&format!("no {key}: this agent has created none\n"));
        }
        (ListFormat::Human, all) => show::out(&shown(all)),
    }
}
