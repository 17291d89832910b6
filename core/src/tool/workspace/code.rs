//! `run_code`, and the tools of contexts.

use std::collections::BTreeMap;
use std::time::Duration;

#[cfg(test)]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Operation;
use crate::error::{Code, Error, Result};
use crate::sandbox::Sandbox;
use crate::time::millis;
use crate::tool::{Content, Reply, command, input};
use crate::workspace::{
    Capability, CodeContext, CodeError, CodeOutput, CodeRun, Language, NewCodeContext, Workspace,
};

pub(super) struct RunCode;
pub(super) struct CreateContext;
pub(super) struct ListContexts;
pub(super) struct RunInContext;
pub(super) struct RestartContext;
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
    /// The directory that it starts in. By default, the directory of the workspace, at which a relative path starts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(with = "String"))]
    working_dir: Option<String>,
    /// Environment variables for this context.
    #[serde(default)]
    env: BTreeMap<String, String>,
}

/// The input of `list_code_contexts`.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct Nothing {}

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

/// The input of `restart_code_context` and `delete_code_context`.
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

/// A context that runs.
#[derive(Debug, Serialize)]
struct Listed {
    context_id: String,
    language: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    working_dir: Option<String>,
    age_ms: u64,
    busy: bool,
}

impl From<CodeContext> for Listed {
    fn from(context: CodeContext) -> Self {
        Listed {
            context_id: context.id,
            language: context.language.name(),
            working_dir: context.working_dir,
            age_ms: millis(context.age),
            busy: context.is_busy,
        }
    }
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
        It ends when it is deleted, and when the sandbox sleeps. `working_dir` and `env` are kept when it is restarted.";
    const CAPABILITY: Capability = Capability::Code;
    const NAMES_DIRECTORY: bool = false;
    const STATEFUL: bool = true;
    type Input = NewContext;

    async fn call<S: Sandbox>(workspace: &Workspace<S>, input: NewContext) -> Result<Reply> {
        let env = command::check_env(input.env)?;
        let language = parse_language(&input.language)?;
        let new = NewCodeContext { language, working_dir: input.working_dir, env };
        let id = workspace.code()?.create_context(new).await?;
        Reply::ok(serde_json::json!({ "context_id": id }))
    }
}

impl Operation for ListContexts {
    const NAME: &'static str = "list_code_contexts";
    const DESCRIPTION: &'static str = "List the contexts that run. Returns contexts: context_id, language, working_dir, age_ms since \
        they were created, and busy, which is true while code runs.";
    const CAPABILITY: Capability = Capability::Code;
    const NAMES_DIRECTORY: bool = false;
    const STATEFUL: bool = true;
    type Input = Nothing;

    async fn call<S: Sandbox>(workspace: &Workspace<S>, _: Nothing) -> Result<Reply> {
        let contexts = workspace.code()?.list_contexts().await?;
        let contexts: Vec<Listed> = contexts.into_iter().map(Listed::from).collect();
        Reply::ok(serde_json::json!({ "contexts": contexts }))
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

impl Operation for RestartContext {
    const NAME: &'static str = "restart_code_context";
    const DESCRIPTION: &'static str = "Restart a context, also one that has ended: it keeps its context_id and loses its variables. \
        Code that runs is interrupted, and killed two seconds later. The processes of its code end.";
    const CAPABILITY: Capability = Capability::Code;
    const NAMES_DIRECTORY: bool = false;
    const STATEFUL: bool = true;
    type Input = OldContext;

    async fn call<S: Sandbox>(workspace: &Workspace<S>, input: OldContext) -> Result<Reply> {
        let is_ended = workspace.code()?.restart_context(&input.context_id).await?;
        confirm_end(is_ended, "two seconds")
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
        let is_ended = workspace.code()?.delete_context(&input.context_id).await?;
        confirm_end(is_ended, "ten seconds")
    }
}

/// Confirms that an interpreter has ended: by itself, or because it was killed after a time.
fn confirm_end(is_ended: bool, time: &str) -> Result<Reply> {
    if is_ended {
        return Reply::ok(serde_json::json!({ "ok": true }));
    }
    let warning = format!(
        "its code, timers, servers or threads still ran after {time}, so it was killed: what it had not written yet is lost"
    );
    Reply::ok(serde_json::json!({ "ok": true, "warning": warning }))
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
