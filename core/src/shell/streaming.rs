//! Commands whose output is passed on while they run.

use std::convert::Infallible;
use std::future::{Future, ready};
use std::pin::pin;
use std::time::Duration;

use futures_util::future::{Either, select};
use koze_protocol::output::Kept;

use super::{MAX_OUTPUT, ShellCommand, run_command, start_attended};
use crate::error::{Code, Result};
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

/// Runs a command. If its caller listens, reports its output while it runs.
pub(crate) async fn run_reporting<S: Sandbox>(
    sandbox: &S,
    command: &ShellCommand<'_>,
    progress: Option<&Progress>,
) -> Result<Output> {
    // On the heap, because every layer of futures counts towards the compiler's recursion limit.
    match progress {
        None if command.stdin.is_none() => run_command(sandbox, command).await,
        None => Box::pin(run_streaming(sandbox, command, |_| ready(Ok::<_, Infallible>(())))).await,
        Some(progress) => Box::pin(run_streaming(sandbox, command, progress.to_reporter())).await,
    }
}

/// Runs a command, and passes on its output at once. The program waits while `on_output` does. After an error of `on_output`, no
/// more is passed on, and the command continues.
pub(crate) async fn run_streaming<S, F, E>(
    sandbox: &S,
    command: &ShellCommand<'_>,
    on_output: impl FnMut(Chunk) -> F + MaybeSend,
) -> Result<Output>
where
    S: Sandbox,
    F: Future<Output = std::result::Result<(), E>> + MaybeSend,
    E: MaybeSend,
{
    let process = start_attended(sandbox, command).await?;
    let stdin = command.stdin.unwrap_or_default();
    let attended = Box::pin(follow_process(&process, stdin, command.timeout, on_output));
    within!("exec" { timeout = command.timeout.as_secs() }, attended)
}

/// Writes a text to a process's standard input, and closes it. A process that ends or stops reading earlier is not an error.
async fn feed_stdin<P: Process>(process: &P, text: &str) -> Result<()> {
    let mut rest = text.as_bytes();
    while !rest.is_empty() {
        let piece = &rest[..rest.len().min(PIECE)];
        match process.write_stdin(piece.to_vec(), LONG).await {
            Ok(taken) => rest = &rest[taken.min(rest.len())..],
            // It has ended, or closed its input.
            Err(error) if error.code == Code::InvalidInput => return Ok(()),
            Err(error) => return Err(error),
        }
    }
    process.close_stdin().await
}

/// Follows a process until it has ended, and kills it at the timeout or when the caller is gone.
async fn follow_process<P, F, E>(
    process: &P,
    stdin: &str,
    timeout: Duration,
    mut on_output: impl FnMut(Chunk) -> F + MaybeSend,
) -> Result<Output>
where
    P: Process,
    F: Future<Output = std::result::Result<(), E>> + MaybeSend,
    E: MaybeSend,
{
    let mut kept = [Kept::new(MAX_OUTPUT), Kept::new(MAX_OUTPUT)];
    let read = async {
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
    let follow = async {
        // A program may write before it has read everything.
        match select(pin!(feed_stdin(process, stdin)), pin!(read)).await {
            Either::Left((fed, read)) => {
                fed?;
                read.await
            }
            Either::Right((exit, _)) => exit,
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
