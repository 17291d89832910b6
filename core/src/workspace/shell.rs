//! The shell of a workspace.

mod allow;
mod commands;
mod lexical;
mod stream;

use std::sync::Arc;
use std::time::Duration;

pub use self::stream::RunEvent;
use super::ShellConfig;
use crate::error::{Code, Error, Result};
use crate::path::absolute_from;
use crate::progress::Progress;
use crate::sandbox::{Output, Sandbox};
use crate::shell::{self, CLEAN_PATH, Line, ShellCommand};
use crate::time::{Start, millis};

/// The shell of a workspace. Commands start in its directory but are not confined to it: the sandbox is the boundary.
#[derive(Debug, Clone)]
pub struct WorkspaceShell<S> {
    sandbox: S,
    config: ShellConfig,
    dir: Arc<str>,
}

/// The result of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ran {
    /// Its output and exit code.
    pub output: Output,
    /// How long it ran, in milliseconds.
    pub duration_ms: u64,
}

impl<S: Sandbox> WorkspaceShell<S> {
    pub(super) fn new(sandbox: S, config: ShellConfig, dir: Arc<str>) -> Self {
        WorkspaceShell { sandbox, config, dir }
    }

    /// Returns its configuration.
    pub fn config(&self) -> &ShellConfig {
        &self.config
    }

    /// Returns the sandbox that it runs in.
    pub(crate) fn sandbox(&self) -> &S {
        &self.sandbox
    }

    /// Runs a command with bash, or with sh where there is no bash, until it exits or its timeout expires. The timeout is the
    /// longest duration of the configuration, or a shorter one.
    ///
    /// # Errors
    /// [`Code::PermissionDenied`] if the command runs a program that is not on the allowlist, [`Code::InvalidInput`] if that
    /// cannot be determined, or if the timeout is longer than the configuration allows, and the errors of the sandbox.
    pub async fn run(&self, command: &str, timeout: Option<Duration>) -> Result<Ran> {
        self.run_call(ShellCall::new(command, timeout), None).await
    }

    /// Runs a command with all that a tool's caller may set. If its caller listens, reports its output while it runs.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub(crate) async fn run_call(&self, call: ShellCall<'_>, progress: Option<&Progress>) -> Result<Ran> {
        let working_dir = self.resolve_dir(call.working_dir)?;
        let command = self.check_call(call, &working_dir)?;
        let start = Start::now();
        let output = shell::run_reporting(&self.sandbox, &command, progress).await?;
        Ok(Ran { output, duration_ms: millis(start.elapsed()) })
    }

    /// Returns the directory to start in. A relative path starts at the workspace's own.
    pub(crate) fn resolve_dir(&self, dir: Option<&str>) -> Result<String> {
        dir.map_or_else(|| Ok(self.dir.to_string()), |dir| absolute_from(&self.dir, dir))
    }

    /// Checks a call against the configuration. Returns what to run.
    pub(crate) fn check_call<'a>(
        &self,
        call: ShellCall<'a>,
        working_dir: &'a str,
    ) -> Result<ShellCommand<'a>> {
        let most = self.config.max_duration;
        let timeout = call.timeout.unwrap_or(most);
        if timeout > most {
            let message = format!(
                "the timeout must be at most {} ms, the longest that this workspace allows",
                millis(most)
            );
            return Err(Error::new(Code::InvalidInput, message));
        }
        let ShellCall { line, env, stdin, .. } = call;
        let command = ShellCommand { line, working_dir, env, stdin, timeout };
        let Some(programs) = &self.config.allow else { return Ok(command) };
        let Line::Shell { command: text, .. } = line else {
            let message = "this workspace allows only certain programs, which are checked in `command`: `argv` is not available";
            return Err(Error::new(Code::PermissionDenied, message));
        };
        // Variables such as `LD_PRELOAD` and `PATH` would choose other programs.
        if !env.is_empty() {
            let message = "this workspace allows only certain programs, so `env` is not available";
            return Err(Error::new(Code::PermissionDenied, message));
        }
        shell::check_command(text)?;
        allow::check_command(text, programs)?;
        Ok(command.after(Some(CLEAN_PATH)))
    }
}

/// A command, and what its caller sets.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ShellCall<'a> {
    /// What to run.
    pub(crate) line: Line<'a>,
    /// The timeout, if it is shorter than the longest duration of the configuration.
    pub(crate) timeout: Option<Duration>,
    /// The directory to start in, if it is not the workspace's.
    pub(crate) working_dir: Option<&'a str>,
    /// Variables in addition to the sandbox's own.
    pub(crate) env: &'a [(String, String)],
    /// What the command reads from its standard input.
    pub(crate) stdin: Option<&'a str>,
}

impl<'a> ShellCall<'a> {
    fn new(command: &'a str, timeout: Option<Duration>) -> Self {
        let line = Line::Shell { prelude: None, command };
        ShellCall { line, timeout, working_dir: None, env: &[], stdin: None }
    }
}

/// The error for a command whose programs are not certain.
fn ambiguous_command(why: &str) -> Error {
    let message = format!(
        "this workspace allows only certain programs, and it is not certain which ones `command` runs: {why}. Use plain \
         commands, joined by `|`, `&&`, `||` or `;`, with the program written without quotes or variables"
    );
    Error::new(Code::InvalidInput, message)
}
