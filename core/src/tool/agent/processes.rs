//! The tools for processes: `process_list`, `process_output`, `process_input` and `process_kill`.

#[cfg(test)]
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

use super::{Shell, default_sandbox, existing_sandbox};
use crate::error::Result;
use crate::id::SandboxName;
use crate::profiles::Profiles;
use crate::provider::Provider;
use crate::session::Session;
use crate::tool::dialect::Definition;
use crate::tool::process::{self, InputInput, KillInput, OutputInput, SignalName};
use crate::tool::{Reply, Tool};

/// Lists processes.
#[derive(Debug)]
pub struct ProcessList;

/// The input of `process_list`.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct List {
    /// The sandbox.
    #[serde(default = "default_sandbox")]
    sandbox: String,
}

impl Tool for ProcessList {
    const NAME: &'static str = "process_list";
    const DESCRIPTION: &'static str = process::LIST;
    type Input = List;

    async fn call<P: Provider>(session: &Session<P>, input: List) -> Result<Reply> {
        process::list(&open(session, &input.sandbox).await?).await
    }
}

/// Reads the output of a process.
#[derive(Debug)]
pub struct ProcessOutput;

/// The input of `process_output`.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Output {
    /// The sandbox.
    #[serde(default = "default_sandbox")]
    sandbox: String,
    /// The ID of the process.
    id: String,
    /// Where to begin: 0, or `next` of an earlier call.
    #[serde(default)]
    since: u64,
    /// How long to wait for output in milliseconds. Output that is there is returned at once.
    #[serde(default)]
    #[cfg_attr(test, schemars(range(max = 60_000)))]
    wait_ms: u64,
}

impl Tool for ProcessOutput {
    const NAME: &'static str = "process_output";
    const DESCRIPTION: &'static str = process::OUTPUT;
    type Input = Output;

    async fn call<P: Provider>(session: &Session<P>, input: Output) -> Result<Reply> {
        let Output { sandbox, id, since, wait_ms } = input;
        process::read_output(&open(session, &sandbox).await?, OutputInput { id, since, wait_ms }).await
    }
}

/// Writes to a process.
#[derive(Debug)]
pub struct ProcessInput;

/// The input of `process_input`.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Written {
    /// The sandbox.
    #[serde(default = "default_sandbox")]
    sandbox: String,
    /// The ID of the process.
    id: String,
    /// The text to write to its standard input. A line ends with `\n`.
    #[serde(default)]
    text: String,
    /// Whether to close its standard input afterwards.
    #[serde(default)]
    close: bool,
}

impl Tool for ProcessInput {
    const NAME: &'static str = "process_input";
    const DESCRIPTION: &'static str = process::INPUT;
    type Input = Written;

    async fn call<P: Provider>(session: &Session<P>, input: Written) -> Result<Reply> {
        let Written { sandbox, id, text, close } = input;
        process::write_input(&open(session, &sandbox).await?, InputInput { id, text, close }).await
    }
}

/// Ends a process.
#[derive(Debug)]
pub struct ProcessKill;

/// The input of `process_kill`.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Kill {
    /// The sandbox.
    #[serde(default = "default_sandbox")]
    sandbox: String,
    /// The ID of the process.
    id: String,
    /// The signal. `KILL` also ends all processes that it started.
    #[serde(default)]
    signal: SignalName,
}

impl Tool for ProcessKill {
    const NAME: &'static str = "process_kill";
    const DESCRIPTION: &'static str = process::KILL;
    type Input = Kill;

    async fn call<P: Provider>(session: &Session<P>, input: Kill) -> Result<Reply> {
        let Kill { sandbox, id, signal } = input;
        process::kill(&open(session, &sandbox).await?, KillInput { id, signal }).await
    }
}

/// Returns a sandbox whose processes agents may use.
async fn open<P: Provider>(session: &Session<P>, name: &str) -> Result<P::Sandbox> {
    check_allowed(session, name).await?;
    existing_sandbox(session, name).await
}

/// Checks that agents may use the processes of a sandbox, which may not exist yet.
pub(super) async fn check_allowed<P: Provider>(session: &Session<P>, name: &str) -> Result<()> {
    let profiles = session.profiles();
    if profiles.list().iter().all(|profile| profile.processes) {
        return Ok(());
    }
    let found = session.find_sandbox(&SandboxName::new(name)?).await?;
    let profile =
        found.and_then(|opened| profiles.list().iter().find(|profile| profile.name == opened.profile));
    process::check_allowed(profile.unwrap_or_else(|| profiles.default_profile()))
}

/// Removes the tools for processes if no profile has any.
pub(super) fn remove_unless_allowed(definitions: &mut Vec<Definition>, profiles: &Profiles) {
    if profiles.list().iter().any(|profile| profile.processes) {
        return;
    }
    definitions.retain(|definition| !process::NAMES.contains(&&*definition.name));
    let shell = definitions.iter_mut().find(|definition| definition.name == Shell::NAME);
    let properties = shell.and_then(|shell| shell.schema.pointer_mut("/properties"));
    if let Some(properties) = properties.and_then(Value::as_object_mut) {
        properties.shift_remove(process::BACKGROUND);
    }
}
