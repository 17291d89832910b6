//! `run`.

use std::collections::BTreeMap;
use std::time::Duration;

#[cfg(test)]
use schemars::JsonSchema;
use serde::Deserialize;

use super::Operation;
use crate::error::Result;
use crate::sandbox::Sandbox;
use crate::tool::{Reply, command, input, process};
use crate::workspace::shell::ShellCall;
use crate::workspace::{Capability, Workspace};

pub(super) struct Run;

/// The input of `run`.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct RunInput {
    /// The bash command line.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(with = "String"))]
    command: Option<String>,
    /// A program and its arguments, which no shell reads. It takes the place of `command`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(with = "Vec<String>"))]
    argv: Option<Vec<String>>,
    /// Whether to return the ID of a process at once, instead of waiting for the command. The process runs until it ends, until
    /// `process_kill`, or until the sandbox sleeps.
    #[serde(default)]
    background: bool,
    /// Timeout in milliseconds. When it expires, the command and the processes it started are killed. By default, the
    /// longest that the workspace allows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(with = "u64", range(min = 1, max = 600_000)))]
    timeout_ms: Option<u64>,
    /// The working directory. By default, the directory of the workspace, at which a relative path starts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(with = "String"))]
    working_dir: Option<String>,
    /// Environment variables for this command.
    #[serde(default)]
    env: BTreeMap<String, String>,
    /// The text that the command reads from its standard input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(with = "String"))]
    stdin: Option<String>,
    /// The maximum length of stdout and of stderr in the result, in characters. A longer one loses its middle, and
    /// `stdout_file` or `stderr_file` is a file of the sandbox with up to 1 MiB of it.
    #[serde(default = "command::default_chars")]
    #[cfg_attr(test, schemars(range(min = 1_000, max = 1_048_576)))]
    max_output_chars: u64,
}

impl Operation for Run {
    const NAME: &'static str = "run";
    const DESCRIPTION: &'static str = "Run a bash command. Returns stdout, stderr, exit_code and duration_ms. A nonzero exit code \
        is reported as an error.";
    const CAPABILITY: Capability = Capability::Shell;
    type Input = RunInput;

    async fn call<S: Sandbox>(workspace: &Workspace<S>, input: RunInput) -> Result<Reply> {
        let timeout = match input.timeout_ms {
            Some(timeout) => {
                Some(Duration::from_millis(input::check_range("timeout_ms", timeout, 1..=600_000)?))
            }
            None => None,
        };
        let max_chars = input::check_range("max_output_chars", input.max_output_chars, command::CHARS)?;
        let line = command::choose_line(input.command.as_deref(), input.argv.as_deref())?;
        let env = command::check_env(input.env)?;
        let shell = workspace.shell()?;
        let call = ShellCall {
            line,
            timeout,
            working_dir: input.working_dir.as_deref(),
            env: &env,
            stdin: input.stdin.as_deref(),
        };
        if input.background {
            process::check_workspace(workspace.config())?;
            let working_dir = shell.resolve_dir(call.working_dir)?;
            return process::start(shell.sandbox(), &shell.check_call(call, &working_dir)?).await;
        }
        let ran = shell.run_call(call, workspace.progress()).await?;
        let is_error = ran.output.exit_code != 0;
        let result =
            command::show_output(shell.sandbox(), ran.output, Some(ran.duration_ms), max_chars).await;
        Ok(Reply { is_error, ..Reply::ok(result)? })
    }
}
