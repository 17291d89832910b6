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
use crate::sandbox::{Output, Sandbox};
use crate::shell;
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

    /// Runs a command with bash, or with sh where there is no bash, until it exits or its timeout expires. The timeout is the
    /// longest duration of the configuration, or a shorter one.
    ///
    /// # Errors
    /// [`Code::PermissionDenied`] if the command runs a program that is not on the allowlist, [`Code::InvalidInput`] if that
    /// cannot be determined, or if the timeout is longer than the configuration allows, and the errors of the sandbox.
    pub async fn run(&self, command: &str, timeout: Option<Duration>) -> Result<Ran> {
        let timeout = self.check_command(command, timeout)?;
        let start = Start::now();
        let output = match &self.config.allow {
            None => shell::run(&self.sandbox, command, &self.dir, timeout).await?,
            Some(programs) => {
                allow::check_command(command, programs)?;
                shell::run_on_clean_path(&self.sandbox, command, &self.dir, timeout).await?
            }
        };
        Ok(Ran { output, duration_ms: millis(start.elapsed()) })
    }

    /// Checks a command and its timeout. Returns the timeout.
    fn check_command(&self, command: &str, timeout: Option<Duration>) -> Result<Duration> {
        let most = self.config.max_duration;
        let timeout = timeout.unwrap_or(most);
        if timeout > most {
            let message = format!(
                "the timeout must be at most {} ms, the longest that this workspace allows",
                millis(most)
            );
            return Err(Error::new(Code::InvalidInput, message));
        }
        shell::check_command(command)?;
        Ok(timeout)
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
