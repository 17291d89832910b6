//! `run_sandbox_code`, and running the scripts of tools.

use std::collections::BTreeMap;

use koze_script::limits::TIME;
#[cfg(test)]
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::stored::agent_sources;
use crate::error::{Code, Error, Result};
use crate::provider::Provider;
use crate::script::answers::Answers;
use crate::script::sources::Kind;
use crate::script::{Check, Failure, Json, Limit, Limits, Ran, Start};
use crate::session::Session;
use crate::tool::mask::Mask;
use crate::tool::{Content, Reply, Scope, Tool, input};

/// The longest schema of a tool, in bytes of JSON.
const MAX_SCHEMA: usize = 64 << 10;
/// The longest timeout of a script in milliseconds, which is also the default.
const MAX_TIMEOUT: u64 = 30_000;
const _: () = assert!(MAX_TIMEOUT as u128 == TIME.as_millis());

pub(super) struct RunSandboxCode;

/// The input of `run_sandbox_code`.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct Input {
    /// JavaScript: the body of an async function. Its result is that of `return`, of `resolve(value)`, or the value of the
    /// last expression.
    code: String,
    /// Timeout in milliseconds, including what the script awaits. When it expires, the script ends.
    #[serde(default = "default_timeout")]
    #[cfg_attr(test, schemars(range(min = 1, max = 30_000)))]
    timeout_ms: u64,
}

fn default_timeout() -> u64 {
    MAX_TIMEOUT
}

impl Tool for RunSandboxCode {
    const NAME: &'static str = "run_sandbox_code";
    const DESCRIPTION: &'static str = "Run JavaScript in an isolate without files or modules. Returns result as JSON, and \
        logs, the lines of console.log. Globals: state.get/set/delete/keys and db.sql(sql, params) (async, kept between runs), \
        await fetch(url, {method, headers, body, timeout}) with ok, status, headers, text(), json() (hosts that the project allows), \
        secrets.NAME (set by the user, masked in results), require(name) for \
        libraries, parseCSV, atob, btoa, setTimeout. At most 30 s and 64 MiB. A failed run returns error with its line and \
        column; what it has stored is kept, its variables are not.";
    const SCOPE: Scope = Scope::Session;
    type Input = Input;

    async fn call<P: Provider>(session: &Session<P>, input: Input) -> Result<Reply> {
        let time_ms = input::check_range("timeout_ms", input.timeout_ms, 1..=MAX_TIMEOUT)?;
        let limits = Limits { time_ms, ..Limits::default() };
        run_script(session, Start { code: input.code, limits, ..Start::default() }).await
    }
}

/// Runs a script with the state and the libraries of the session's agent.
pub(super) async fn run_script<P: Provider>(session: &Session<P>, script: Start) -> Result<Reply> {
    let store = session.agent_store()?;
    // Not collected, as in `Secrets`.
    let mut libraries = BTreeMap::new();
    let sources = agent_sources(session, Kind::Library)?.list().await?;
    libraries.extend(sources.into_iter().map(|(name, source)| (name, source.code)));
    let secrets = session.provider().script_secrets(session.agent())?;
    // The secrets that the script gets, even if others are set meanwhile.
    let mask = Mask::new(&secrets);
    let browser = session.profiles().has_script_browser();
    let credentials = session.profiles().script_credentials().with_values(session.agent(), &secrets);
    // The value of a credential is for requests only.
    let is_credential = |name: &str| session.profiles().declares_credential(name);
    let secrets = secrets.iter().filter(|(name, _)| !is_credential(name)).chain(credentials.placeholders());
    let secrets = secrets.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    let start = Start { libraries, secrets, browser, seed: uuid::Uuid::new_v4().as_fields().0, ..script };
    let egress = session.profiles().script_egress().cloned().unwrap_or_default();
    let answers = Answers::new(session, store, &egress, credentials).with_browser(browser);
    let time_ms = start.limits.time_ms;
    let ran = session.provider().run_script(session.agent(), start, &answers).await;
    mask.mask_outcome(ran.and_then(|ran| into_reply(ran, time_ms)))
}

fn into_reply(Ran { result, logs }: Ran, time_ms: u64) -> Result<Reply> {
    match result {
        Ok(result) => {
            Ok(Reply { content: Content::Json(json!({ "result": result, "logs": logs })), is_error: false })
        }
        Err(failure) if failure.arguments => Err(into_error(failure)),
        Err(mut failure) => {
            if failure.limit == Some(Limit::Time) {
                failure.message.push_str(timeout_advice(time_ms));
            }
            let mut fields = failure_fields(&failure);
            fields.insert("logs".into(), logs.into());
            Ok(Reply { content: Content::Json(fields.into()), is_error: true })
        }
    }
}

/// Returns what a model is told about a script that has reached its time limit: what is left of it, and what to change.
fn timeout_advice(time_ms: u64) -> &'static str {
    if time_ms < MAX_TIMEOUT {
        "; `timeout_ms` can be up to 30000. What it stored with `state` and `db` is kept"
    } else {
        ". What it stored with `state` and `db` is kept"
    }
}

/// Returns the fields that describe the failure of a script.
fn failure_fields(Failure { message, name, stack, place, limit, .. }: &Failure) -> Map<String, Value> {
    let mut fields = Map::from_iter([("error".to_owned(), Value::from(message.as_str()))]);
    if let Some(name) = name {
        let alone = message.strip_prefix(name.as_str()).unwrap_or(message);
        fields.insert("name".into(), name.as_str().into());
        fields.insert("message".into(), alone.strip_prefix(": ").unwrap_or(alone).into());
    }
    fields.extend(stack.as_deref().map(|stack| ("stack".to_owned(), stack.into())));
    if let Some(place) = place {
        fields.extend(place.library.as_deref().map(|library| ("library".to_owned(), library.into())));
        fields.insert("line".into(), place.line.into());
        fields.insert("column".into(), place.column.into());
    }
    fields.extend(limit.map(|limit| ("limit".to_owned(), json!(limit))));
    fields
}

/// Compiles the source of a library or tool, so that a broken one is never stored.
pub(super) async fn check_code<P: Provider>(session: &Session<P>, kind: Kind, code: &str) -> Result<()> {
    let code = code.to_owned();
    let check = if kind == Kind::Library { Check::Library(code) } else { Check::Script(code) };
    let Err(failure) = session.provider().check_script(session.agent(), check).await? else { return Ok(()) };
    let place = failure.place.as_ref();
    let place = place.map(|place| format!(" ({place})"));
    let message = format!("`code` does not compile: {}{}", failure.message, place.unwrap_or_default());
    Err(Error::new(Code::InvalidInput, message))
}

/// Checks the schema of a tool.
pub(super) async fn check_schema<P: Provider>(session: &Session<P>, schema: &Value) -> Result<()> {
    let schema = Json::from(schema);
    if schema.text().len() > MAX_SCHEMA {
        let message = format!("`parameter_schema` may have at most {MAX_SCHEMA} bytes of JSON");
        return Err(Error::new(Code::InvalidInput, message));
    }
    let checked = session.provider().check_script(session.agent(), Check::Schema(schema)).await?;
    checked.map_err(|mut failure| {
        if !failure.arguments {
            // The host has ended the engine.
            failure.message = format!("`parameter_schema` cannot be checked: {}", failure.message);
        }
        into_error(failure)
    })
}

/// Returns the error for a schema, or for arguments, that the engine refuses.
fn into_error(failure: Failure) -> Error {
    let code = if failure.limit.is_some() { Code::TooLarge } else { Code::InvalidInput };
    Error::new(code, failure.message)
}
