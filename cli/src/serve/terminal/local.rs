//! The shell of a sandbox on this machine.

use std::pin::Pin;
use std::sync::Arc;

use hyper::body::Bytes;
use koze_core::http::ProcessExit;
use koze_core::{Code, Error, Result};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::unix::pipe::{Receiver, Sender};

use super::pty::{Pty, Window};
use super::relay::{End, Input, Output, Printed, Shell};
use crate::provider::AttachedStreams;
use crate::session::exec::{Attending, Tells};

/// How much output is read at once, in bytes.
const PIECE: usize = 16 << 10;
/// How much output is read after the shell has ended, in bytes: more than a terminal holds. Programs in the background could go on
/// printing.
const REST: usize = 1 << 20;

/// What the programs in a terminal print. The supervisor kills the shell when this is dropped.
pub(super) struct LocalOutput {
    output: Receiver,
    window: Arc<Window>,
    /// The end of the shell.
    report: Pin<Box<dyn Future<Output = Result<ProcessExit>> + Send>>,
    exit: Option<Result<ProcessExit>>,
    is_open: bool,
    rest: usize,
    buffer: Vec<u8>,
    _tells: Tells,
}

/// What is typed in a terminal.
pub(super) struct LocalInput(Sender);

/// Opens the terminal of a shell.
///
/// # Errors
/// [`Code::Unavailable`] if there are too many descriptors.
pub(super) fn open(attending: Attending) -> Result<Shell<LocalOutput, LocalInput>> {
    let Attending { streams, mut reports, tells } = attending;
    let AttachedStreams::Terminal(terminal) = streams else { unreachable!("a terminal was requested") };
    let Pty { output, input, window } = Pty::new(terminal).map_err(|error| {
        Error::new(Code::Unavailable, format!("the system is out of resources: {error}")).with_source(error)
    })?;
    let window = Arc::new(window);
    let output = LocalOutput {
        output,
        window: Arc::clone(&window),
        report: Box::pin(async move {
            let (exit_code, _) = reports.wait().await?;
            Ok(ProcessExit { exit_code })
        }),
        exit: None,
        is_open: true,
        rest: 0,
        buffer: vec![0; PIECE],
        _tells: tells,
    };
    Ok(Shell { output, input: LocalInput(input), resize: Box::new(move |size| window.resize(size)) })
}

impl Output for LocalOutput {
    async fn next(&mut self) -> Printed {
        while self.exit.is_none() {
            tokio::select! {
                biased;
                exit = &mut self.report => self.exit = Some(exit),
                read = self.output.read(&mut self.buffer), if self.is_open => match read {
                    Ok(read @ 1..) => return Printed::Bytes(Bytes::copy_from_slice(&self.buffer[..read])),
                    Ok(0) | Err(_) => self.is_open = false,
                },
            }
        }
        let read = if self.rest < REST { self.window.read_rest(&mut self.buffer) } else { 0 };
        self.rest += read;
        match (read, self.exit.take()) {
            (1.., exit) => {
                self.exit = exit;
                Printed::Bytes(Bytes::copy_from_slice(&self.buffer[..read]))
            }
            (0, Some(Ok(exit))) => Printed::Ended(End::Exited(exit)),
            (0, Some(Err(error))) => Printed::Ended(End::Failed(error)),
            (0, None) => unreachable!("the end was reported"),
        }
    }
}

impl Input for LocalInput {
    async fn write(&mut self, bytes: Bytes) -> bool {
        self.0.write_all(&bytes).await.is_ok()
    }
}
