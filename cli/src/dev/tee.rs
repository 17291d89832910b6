//! Runs a program, shows its standard error as it arrives, and keeps the end of it so that errors can be explained.

use std::io::{self, Write as _};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use tokio::io::AsyncReadExt as _;
use tokio::process::Command;
use tokio::time::{Instant, sleep_until};

use crate::platform::Signals;

/// How many bytes of the output are kept, counted from its end.
const KEPT: usize = 1 << 20;

/// How long to wait for the end of the output if a descendant keeps it open.
const TIMEOUT: Duration = Duration::from_millis(500);

/// Runs a program, forwards signals to it, and returns its exit status and the end of its standard error.
///
/// # Errors
/// Returns an error if the program cannot be started.
pub async fn run(command: std::process::Command) -> io::Result<(ExitStatus, String)> {
    let mut signals = Signals::new()?;
    let mut child = Command::from(command).stderr(Stdio::piped()).spawn()?;
    let mut stderr = child.stderr.take();
    let (mut output, mut buffer) = (Vec::new(), vec![0; 1 << 16]);
    let mut ended: Option<(ExitStatus, Instant)> = None;
    loop {
        let id = child.id();
        let (pipe, at) = (stderr.as_mut(), ended.as_ref().map(|(_, at)| *at));
        let reading = async {
            match pipe {
                Some(pipe) => pipe.read(&mut buffer).await.unwrap_or(0),
                None => std::future::pending().await,
            }
        };
        let late = async {
            match at {
                Some(at) => sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            count = reading => match count {
                0 => stderr = None,
                count => {
                    let _ = io::stderr().write_all(&buffer[..count]);
                    output.extend_from_slice(&buffer[..count]);
                    output.drain(..output.len().saturating_sub(KEPT));
                }
            },
            status = child.wait(), if ended.is_none() => ended = Some((status?, Instant::now() + TIMEOUT)),
            () = signals.pass(id) => {}
            () = late => stderr = None,
        }
        if let (None, Some((status, _))) = (&stderr, &ended) {
            return Ok((*status, String::from_utf8_lossy(&output).into_owned()));
        }
    }
}
