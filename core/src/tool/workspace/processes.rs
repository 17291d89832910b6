//! `process_list`, `process_output`, `process_input` and `process_kill`.

#[cfg(test)]
use schemars::JsonSchema;
use serde::Deserialize;

use super::Operation;
use crate::error::Result;
use crate::sandbox::Sandbox;
use crate::tool::Reply;
use crate::tool::process::{self, InputInput, KillInput, OutputInput};
use crate::workspace::{Capability, Workspace};

pub(super) struct List;
pub(super) struct Output;
pub(super) struct Input;
pub(super) struct Kill;

/// The input of `process_list`.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct Nothing {}

impl Operation for List {
    const NAME: &'static str = "process_list";
    const DESCRIPTION: &'static str = process::LIST;
    const CAPABILITY: Capability = Capability::Shell;
    const NAMES_DIRECTORY: bool = false;
    type Input = Nothing;

    async fn call<S: Sandbox>(workspace: &Workspace<S>, _: Nothing) -> Result<Reply> {
        process::list(workspace.shell()?.sandbox()).await
    }
}

impl Operation for Output {
    const NAME: &'static str = "process_output";
    const DESCRIPTION: &'static str = process::OUTPUT;
    const CAPABILITY: Capability = Capability::Shell;
    const NAMES_DIRECTORY: bool = false;
    type Input = OutputInput;

    async fn call<S: Sandbox>(workspace: &Workspace<S>, input: OutputInput) -> Result<Reply> {
        process::read_output(workspace.shell()?.sandbox(), input).await
    }
}

impl Operation for Input {
    const NAME: &'static str = "process_input";
    const DESCRIPTION: &'static str = process::INPUT;
    const CAPABILITY: Capability = Capability::Shell;
    const NAMES_DIRECTORY: bool = false;
    type Input = InputInput;

    async fn call<S: Sandbox>(workspace: &Workspace<S>, input: InputInput) -> Result<Reply> {
        process::write_input(workspace.shell()?.sandbox(), input).await
    }
}

impl Operation for Kill {
    const NAME: &'static str = "process_kill";
    const DESCRIPTION: &'static str = process::KILL;
    const CAPABILITY: Capability = Capability::Shell;
    const NAMES_DIRECTORY: bool = false;
    type Input = KillInput;

    async fn call<S: Sandbox>(workspace: &Workspace<S>, input: KillInput) -> Result<Reply> {
        process::kill(workspace.shell()?.sandbox(), input).await
    }
}
