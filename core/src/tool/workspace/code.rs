//! `run_code`, and the tools of contexts.

use std::time::Duration;

#[cfg(test)]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Operation;
use crate::error::{Code, Error, Result};
use crate::sandbox::Sandbox;
use crate::tool::{Content, Reply, input};
use crate::workspace::{Capability, CodeError, CodeOutput, CodeRun, Language, Workspace};

pub(super) struct RunCode;
pub(super) struct CreateContext;
pub(super) struct RunInContext;
pub(super) struct DeleteContext;

/// The input of `run_code`.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct Source {
    /// The code. The value of its last expression is returned. `await` is allowed at the top level.
    code: String,
    /// The language.
    language: String,
    /// Timeout in milliseconds. When it expires, the code is interrupted.
    #[serde(default = "default_timeout")]
    #[cfg_attr(test, schemars(range(min = 1, max = 600_000)))]
    timeout_ms: u64,
}

/// The input of `create_code_context`.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct NewContext {
    /// The language.
    language: String,
}

/// The input of `run_in_code_context`.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct SourceInContext {
    /// The ID that `create_code_context` returned.
    context_id: String,
    /// The code. The value of its last expression is returned. `await` is allowed at the top level.
    code: String,
    /// Timeout in milliseconds. When it expires, the code is interrupted, and killed two seconds later if it still runs.
    #[serde(default = "default_timeout")]
    #[cfg_attr(test, schemars(range(min = 1, max = 600_000)))]
    timeout_ms: u64,
}

/// The input of `delete_code_context`.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct OldContext {
    /// The ID that `create_code_context` returned.
    context_id: String,
}

fn default_timeout() -> u64 {
    30_000
}

/// The result of code.
#[derive(Debug, Serialize)]
struct Told {
    exit_code: i32,
    outputs: Vec<CodeOutput>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<CodeError>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    timed_out: bool,
    /// Only where it is in question.
    #[serde(skip_serializing_if = "Option::is_none")]
    variables_kept: Option<bool>,
}

impl Operation for RunCode {
    const NAME: &'static str = "run_code";
    const DESCRIPTION: &'static str = "Run code in a new interpreter. Returns exit_code, and outputs: stdout, stderr, displays \
        with mime and data, and the result, which is the value of the last expression. An error has its name, message and \
        traceback. The interpreter ends as after a script: the call waits for timers, servers and threads until the timeout.";
    const CAPABILITY: Capability = Capability::Code;
    type Input = Source;

    async fn call<S: Sandbox>(workspace: &Workspace<S>, input: Source) -> Result<Reply> {
        let timeout = parse_timeout(input.timeout_ms)?;
        let run = workspace.code()?.run(&input.code, parse_language(&input.language)?, Some(timeout)).await?;
        to_reply(run, false)
    }
}

impl Operation for CreateContext {
    const NAME: &'static str = "create_code_context";
    const DESCRIPTION: &'static str = "Create a context: an interpreter that keeps variables between calls. Returns context_id. \
        It ends when it is deleted, and when the sandbox sleeps.";
    const CAPABILITY: Capability = Capability::Code;
    const NAMES_DIRECTORY: bool = false;
    const STATEFUL: bool = true;
    type Input = NewContext;

    async fn call<S: Sandbox>(workspace: &Workspace<S>, input: NewContext) -> Result<Reply> {
        let id = workspace.code()?.create_context(parse_language(&input.language)?).await?;
        Reply::ok(serde_json::json!({ "context_id": id }))
    }
}

impl Operation for RunInContext {
    const NAME: &'static str = "run_in_code_context";
    const DESCRIPTION: &'static str = "Run code in a context, with the variables of earlier calls. Returns the same as run_code \
        as soon as the code has ended; timers and threads continue, and files are written when they are closed or the \
        context is deleted. After a timeout, variables_kept says whether the variables survived.";
    const CAPABILITY: Capability = Capability::Code;
    const STATEFUL: bool = true;
    type Input = SourceInContext;

    async fn call<S: Sandbox>(workspace: &Workspace<S>, input: SourceInContext) -> Result<Reply> {
        let timeout = parse_timeout(input.timeout_ms)?;
        let run = workspace.code()?.run_in_context(&input.context_id, &input.code, Some(timeout)).await?;
        to_reply(run, true)
    }
}

impl Operation for DeleteContext {
    const NAME: &'static str = "delete_code_context";
    const DESCRIPTION: &'static str = "Delete a context. Its interpreter ends as after a script, and is killed after ten seconds. \
        The processes of its code end.";
    const CAPABILITY: Capability = Capability::Code;
    const NAMES_DIRECTORY: bool = false;
    const STATEFUL: bool = true;
    type Input = OldContext;

    async fn call<S: Sandbox>(workspace: &Workspace<S>, input: OldContext) -> Result<Reply> {
        if workspace.code()?.delete_context(&input.context_id).await? {
            return Reply::ok(serde_json::json!({ "ok": true }));
        }
        let warning = "its timers, servers or threads still ran after ten seconds, so it was killed: what it had not written \
                       yet is lost";
        Reply::ok(serde_json::json!({ "ok": true, "warning": warning }))
    }
}

fn parse_timeout(ms: u64) -> Result<Duration> {
    Ok(Duration::from_millis(input::check_range("timeout_ms", ms, 1..=600_000)?))
}

fn parse_language(name: &str) -> Result<Language> {
    Language::find(name).ok_or_else(|| {
        let known = Language::ALL.map(Language::name).join(" or ");
        Error::new(Code::InvalidInput, format!("unknown language `{name}`: use {known}"))
    })
}

fn to_reply(run: CodeRun, in_context: bool) -> Result<Reply> {
    let in_question = in_context && (run.timed_out || !run.survived);
    let told = Told {
        exit_code: run.exit_code,
        outputs: run.outputs,
        error: run.error,
        timed_out: run.timed_out,
        variables_kept: in_question.then_some(run.survived),
    };
    let is_error = told.exit_code != 0;
    let value = serde_json::to_value(told).map_err(|error| Error::new(Code::Internal, error.to_string()))?;
    Ok(Reply { content: Content::Outputs(value), is_error })
}
