//! Commands whose output is passed on while they run.

use std::future::Future;
use std::time::Duration;

use futures_util::{Stream as Events, StreamExt as _};

use super::{Ran, ShellCall, WorkspaceShell};
use crate::error::Result;
use crate::maybe_send::MaybeSend;
use crate::progress::{self, Event, Progress};
use crate::sandbox::Sandbox;
use crate::sandbox::process::Chunk;
use crate::shell;
use crate::time::{Start, millis};

/// What happens while a command runs.
pub type RunEvent = Event<Result<Ran>>;

impl<S: Sandbox> WorkspaceShell<S> {
    /// Runs a command as [`run`](Self::run) does, and passes on its output at once. The program waits while `on_output` does,
    /// and nothing is lost. After an error of `on_output`, no more is passed on, and the command continues.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub async fn run_streaming<F, E>(
        &self,
        command: &str,
        timeout: Option<Duration>,
        on_output: impl FnMut(Chunk) -> F + MaybeSend,
    ) -> Result<Ran>
    where
        F: Future<Output = std::result::Result<(), E>> + MaybeSend,
        E: MaybeSend,
    {
        let command = self.check_call(ShellCall::new(command, timeout), &self.dir)?;
        let start = Start::now();
        let output = shell::run_streaming(&self.sandbox, &command, on_output).await?;
        Ok(Ran { output, duration_ms: millis(start.elapsed()) })
    }

    /// Runs a command, and returns its output as a stream that ends with its result. The program waits while the stream is
    /// not read. Dropping the stream kills the program.
    pub fn stream(
        &self,
        command: &str,
        timeout: Option<Duration>,
    ) -> impl Events<Item = RunEvent> + MaybeSend + 'static {
        let (progress, reports) = Progress::channel();
        let (shell, command) = (self.clone(), command.to_owned());
        let run = async move { shell.run_streaming(&command, timeout, progress.to_reporter()).await };
        progress::follow(run, reports).fuse()
    }
}
