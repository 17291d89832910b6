//! Commands whose output is passed on while they run.

use std::future::Future;
use std::pin::pin;
use std::time::Duration;

use futures_util::future::{Either, select};
use koze_protocol::output::Kept;

use super::{MAX_OUTPUT, run_after, start_attended};
use crate::error::Result;
use crate::maybe_send::MaybeSend;
use crate::progress::Progress;
use crate::sandbox::process::{Chunk, Exit, Process, Stream};
use crate::sandbox::{Output, Sandbox};
use crate::trace::within;

/// How many bytes one read takes at most.
const PIECE: usize = 64 << 10;
/// How long one read waits.
const LONG: Duration = Duration::from_mins(1);
/// The exit code after a timeout.
const TIMED_OUT: i32 = 124;

/// Runs a command as [`run_after`] does. If its caller listens, reports its output while it runs.
pub(crate) async fn run_reporting<S: Sandbox>(
    sandbox: &S,
    command: &str,
    working_dir: &str,
    timeout: Duration,
    progress: Option<&Progress>,
) -> Result<Output> {
    match progress {
        None => run_after(sandbox, None, command, working_dir, timeout).await,
        Some(progress) => {
            let report = progress.to_reporter();
            // On the heap, because every layer of futures counts towards the compiler's recursion limit.
            Box::pin(run_streaming(sandbox, None, command, working_dir, timeout, report)).await
        }
    }
}

/// Runs a command as [`run_after`] does, and passes on its output at once. The program waits while `on_output` does. After an
/// error of `on_output`, no more is passed on, and the command continues.
pub(crate) async fn run_streaming<S, F, E>(
    sandbox: &S,
    prelude: Option<&str>,
    command: &str,
    working_dir: &str,
    timeout: Duration,
    on_output: impl FnMut(Chunk) -> F + MaybeSend,
) -> Result<Output>
where
    S: Sandbox,
    F: Future<Output = std::result::Result<(), E>> + MaybeSend,
    E: MaybeSend,
{
    let process = start_attended(sandbox, prelude, command, working_dir).await?;
    let attended = Box::pin(follow_process(&process, timeout, on_output));
    within!("exec" { timeout = timeout.as_secs() }, attended)
}

/// Follows a process until it has ended, and kills it at the timeout or when the caller is gone.
async fn follow_process<P, F, E>(
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
