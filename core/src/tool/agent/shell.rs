//! `shell`.

use std::collections::BTreeMap;
use std::time::Duration;

#[cfg(test)]
use schemars::JsonSchema;
use serde::Deserialize;

use super::{default_sandbox, processes};
use crate::error::Result;
use crate::path::{HOME, absolute};
use crate::provider::Provider;
use crate::session::Session;
use crate::shell::{self, ShellCommand};
use crate::tool::{Reply, Tool, command, input, process};

/// Runs a shell command.
#[derive(Debug)]
pub struct Shell;

/// The input of `shell`.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// The sandbox to run in. It is created on first use.
    #[serde(default = "default_sandbox")]
    sandbox: String,
    /// The bash command line. Start servers in the background with `&`; they run until the sandbox sleeps.
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
    /// Timeout in milliseconds. When it expires, the command and the processes it started are killed.
    #[serde(default = "default_timeout")]
    #[cfg_attr(test, schemars(range(min = 1, max = 600_000)))]
    timeout_ms: u64,
    /// The working directory. It does not carry over to the next call.
    #[serde(default = "default_dir")]
    working_dir: String,
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

fn default_timeout() -> u64 {
    30_000
}

fn default_dir() -> String {
    HOME.to_owned()
}

impl Tool for Shell {
    const NAME: &'static str = "shell";
    const DESCRIPTION: &'static str = "Run a bash command in a sandbox. Returns stdout, stderr and exit_code. A nonzero exit code is \
        reported as an error.";
    type Input = Input;

    async fn call<P: Provider>(session: &Session<P>, input: Input) -> Result<Reply> {
        let timeout = input::check_range("timeout_ms", input.timeout_ms, 1..=600_000)?;
        let max_chars = input::check_range("max_output_chars", input.max_output_chars, command::CHARS)?;
        let line = command::choose_line(input.command.as_deref(), input.argv.as_deref())?;
        let env = command::check_env(input.env)?;
        let working_dir = absolute(&input.working_dir)?;
        if input.background {
            processes::check_allowed(session, &input.sandbox).await?;
        }
        let sandbox = session.sandbox(&input.sandbox).await?;
        let command = ShellCommand {
            line,
            working_dir: &working_dir,
            env: &env,
            stdin: input.stdin.as_deref(),
            timeout: Duration::from_millis(timeout),
        };
        if input.background {
            return process::start(&sandbox, &command).await;
        }
        let output = shell::run_reporting(&sandbox, &command, session.progress()).await?;
        if let Some(observed) = session.find_observer(&input.sandbox) {
            observed.ran(&line.to_text(), &output);
        }
        let is_error = output.exit_code != 0;
        let result = command::show_output(&sandbox, output, None, max_chars).await;
        Ok(Reply { is_error, ..Reply::ok(result)? })
    }
}
