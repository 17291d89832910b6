//! `run`.

use std::time::Duration;

#[cfg(test)]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Operation;
use crate::error::Result;
use crate::sandbox::Sandbox;
use crate::tool::{Reply, input};
use crate::workspace::{Capability, Workspace};

pub(super) struct Run;

/// The input of `run`.
#[derive(Debug, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub(super) struct Command {
    /// The bash command line.
    command: String,
    /// Timeout in milliseconds. When it expires, the command and the processes it started are killed. By default, the
    /// longest that the workspace allows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schemars(with = "u64", range(min = 1, max = 600_000)))]
    timeout_ms: Option<u64>,
}

/// The result. Output that is not UTF-8 is encoded as base64, and its `…_encoding` says so.
#[derive(Debug, Serialize)]
struct Told {
    stdout: String,
    stderr: String,
    exit_code: i32,
    duration_ms: u64,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    timed_out: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    stdout_encoding: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stderr_encoding: Option<&'static str>,
}

impl Operation for Run {
    const NAME: &'static str = "run";
    const DESCRIPTION: &'static str = "Run a bash command. Returns stdout, stderr, exit_code and duration_ms. A nonzero exit code \
        is reported as an error.";
    const CAPABILITY: Capability = Capability::Shell;
    type Input = Command;

    async fn call<S: Sandbox>(workspace: &Workspace<S>, input: Command) -> Result<Reply> {
        let timeout = match input.timeout_ms {
            Some(timeout) => {
                Some(Duration::from_millis(input::check_range("timeout_ms", timeout, 1..=600_000)?))
            }
            None => None,
        };
        let shell = workspace.shell()?;
        let ran = match workspace.progress() {
            None => shell.run(&input.command, timeout).await?,
            // On the heap, because every layer of futures counts towards the compiler's recursion limit.
            Some(progress) => {
                Box::pin(shell.run_streaming(&input.command, timeout, progress.to_reporter())).await?
            }
        };
        let output = ran.output;
        let (stdout, binary_out) = input::encode_bytes(output.stdout);
        let (stderr, binary_err) = input::encode_bytes(output.stderr);
        let encoding = |binary: bool| binary.then_some("base64");
        let told = Told {
            stdout,
            stderr,
            exit_code: output.exit_code,
            duration_ms: ran.duration_ms,
            timed_out: output.timed_out,
            stdout_encoding: encoding(binary_out),
            stderr_encoding: encoding(binary_err),
        };
        Ok(Reply { is_error: told.exit_code != 0, ..Reply::ok(told)? })
    }
}
