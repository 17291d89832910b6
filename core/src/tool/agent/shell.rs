//! `shell`.

use std::time::Duration;

#[cfg(test)]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::default_sandbox;
use crate::error::Result;
use crate::path::{HOME, absolute};
use crate::provider::Provider;
use crate::sandbox::Output;
use crate::session::Session;
use crate::shell;
use crate::tool::input;
use crate::tool::{Reply, Tool};

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
    command: String,
    /// Timeout in milliseconds. When it expires, the command and the processes it started are killed.
    #[serde(default = "default_timeout")]
    #[cfg_attr(test, schemars(range(min = 1, max = 600_000)))]
    timeout_ms: u64,
    /// The working directory. It does not carry over to the next call.
    #[serde(default = "default_dir")]
    working_dir: String,
}

fn default_timeout() -> u64 {
    30_000
}

fn default_dir() -> String {
    HOME.to_owned()
}

/// The result. Output that is not UTF-8 is encoded as base64, and its `…_encoding` says so.
#[derive(Debug, Serialize)]
struct Given {
    stdout: String,
    stderr: String,
    exit_code: i32,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    timed_out: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    stdout_encoding: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stderr_encoding: Option<&'static str>,
}

impl Tool for Shell {
    const NAME: &'static str = "shell";
    const DESCRIPTION: &'static str = "Run a bash command in a sandbox. Returns stdout, stderr and exit_code. A \
        nonzero exit code is \
                                       reported as an error.";
    type Input = Input;

    async fn call<P: Provider>(session: &Session<P>, input: Input) -> Result<Reply> {
        let timeout = input::check_range("timeout_ms", input.timeout_ms, 1..=600_000)?;
        shell::check_command(&input.command)?;
        let working_dir = absolute(&input.working_dir)?;
        let sandbox = session.sandbox(&input.sandbox).await?;
        let timeout = Duration::from_millis(timeout);
        let progress = session.progress();
        let output = shell::run_reporting(&sandbox, &input.command, &working_dir, timeout, progress).await?;
        if let Some(observed) = session.find_observer(&input.sandbox) {
            observed.ran(&input.command, &output);
        }
        let is_error = output.exit_code != 0;
        Ok(Reply { is_error, ..Reply::ok(encode_output(output))? })
    }
}

fn encode_output(output: Output) -> Given {
    let (stdout, binary_out) = input::encode_bytes(output.stdout);
    let (stderr, binary_err) = input::encode_bytes(output.stderr);
    let encoding = |binary: bool| binary.then_some("base64");
    Given {
        stdout,
        stderr,
        exit_code: output.exit_code,
        timed_out: output.timed_out,
        stdout_encoding: encoding(binary_out),
        stderr_encoding: encoding(binary_err),
    }
}
