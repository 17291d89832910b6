//! Commands whose output is passed on while they run.

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use futures_util::future::{Either, select};
use futures_util::{Stream as Events, StreamExt as _};

use super::{Ran, WorkspaceShell, allow};
use crate::error::Result;
use crate::progress::{self, Event, Progress};
use crate::sandbox::process::{Chunk, Exit, Process, Stream};
use crate::sandbox::{MaybeSend, Output, Sandbox};
use crate::shell::{self, CLEAN_PATH, MAX_OUTPUT};
use crate::time::{Start, millis};
use crate::trace::within;
use koze_protocol::output::Kept;

/// How many bytes one read takes at most.
const PIECE: usize = 64 << 10;
/// How long one read waits.
const LONG: Duration = Duration::from_mins(1);
/// The exit code after a timeout.
const TIMED_OUT: i32 = 124;

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
        let timeout = self.admit(command, timeout)?;
        let start = Start::now();
        let process = match &self.config.allow {
            None => shell::start(&self.sandbox, None, command, &self.dir).await?,
            Some(programs) => {
                allow::check(command, programs)?;
                shell::start(&self.sandbox, Some(CLEAN_PATH), command, &self.dir).await?
            }
        };
        let attended = Box::pin(attend(&process, timeout, on_output));
        let output = within!("exec" { timeout = timeout.as_secs() }, attended)?;
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
        let run = async move {
            let report = |chunk| {
                let progress = progress.clone();
                async move {
                    progress.report(chunk).await;
                    Ok::<_, std::convert::Infallible>(())
                }
            };
            shell.run_streaming(&command, timeout, report).await
        };
        progress::follow(run, reports).fuse()
    }
}

/// Follows a process until it has ended, and kills it at the timeout or when the caller is gone.
async fn attend<P, F, E>(
    process: &P,
    timeout: Duration,
    mut on_output: impl FnMut(Chunk) -> F + MaybeSend,
) -> Result<Output>
where
    P: Process,
    F: Future<Output = std::result::Result<(), E>> + MaybeSend,
    E: MaybeSend,
{
    let mut kept = [Kept::new(MAX_OUTPUT), Kept::new(MAX_OUTPUT)];
    let follow = async {
        // Programs started with a tool have nothing to read.
        process.close_stdin().await?;
        let (mut cursor, mut listens) = (0, true);
        loop {
            let read = process.read(cursor, PIECE, LONG).await?;
            cursor = read.next;
            for chunk in read.chunks {
                kept[usize::from(chunk.stream == Stream::Stderr)].push(&chunk.bytes);
                listens = listens && on_output(chunk).await.is_ok();
            }
            if let Some(exit) = read.exit {
                return Ok::<Exit, crate::Error>(exit);
            }
        }
    };
    let exit = {
        let (mut follow, supervise) = (pin!(follow), pin!(process.supervise(timeout)));
        match select(follow.as_mut(), supervise).await {
            Either::Left((exit, supervise)) => {
                let exit = exit?;
                // After a timeout, the end can be read before the signal has returned.
                supervise.await?.is_some().then_some(exit)
            }
            Either::Right((exit, _)) => {
                let in_time = exit?.is_some();
                // What it printed before is still passed on.
                let exit = follow.await?;
                in_time.then_some(exit)
            }
        }
    };
    let [stdout, stderr] = kept.map(Kept::finish);
    Ok(Output {
        stdout,
        stderr,
        exit_code: exit.map_or(TIMED_OUT, |exit| exit.code),
        timed_out: exit.is_none(),
    })
}
