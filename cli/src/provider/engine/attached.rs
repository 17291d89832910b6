//! Programs whose standard streams belong to a command: pipes, or a terminal of this machine, whose other ends are connected to
//! a process in the container.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use koze_core::sandbox::process::{Process as _, Program, Signal, Stdio, Stream};
use koze_core::{Code, Error, Result, Sandbox as _};
use koze_engine::{EngineProcess, EngineSandbox};
use rustix::fs::{Mode, OFlags};
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{OptionalActions, Winsize, tcgetattr, tcgetwinsize, tcsetattr, tcsetwinsize};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::unix::pipe::{Receiver, Sender};
use tokio::sync::watch;

use super::pipes::{create_pipe, no_pipe, receiver, sender};
use crate::provider::{AttachedProgram, AttachedStreams};

/// The label of processes whose output a command reads.
pub(super) const LABEL: &str = "koze exec";
/// How much output is kept for the pipes, in bytes.
const BUFFER: usize = 1 << 20;
/// The most that is read or written at once, in bytes.
const PIECE: usize = 64 << 10;
/// How long one call waits for output or input.
const TURN: Duration = Duration::from_mins(1);
/// How often the size of a terminal is looked at.
const RESIZE_INTERVAL: Duration = Duration::from_millis(200);
/// How long the last output of a program that has ended may take to reach its pipes.
const REST: Duration = Duration::from_secs(10);

/// A program whose standard streams belong to a command.
pub(crate) struct EngineAttached {
    process: EngineProcess,
    /// Set once its output was copied.
    is_copied: watch::Receiver<bool>,
}

impl AttachedProgram for EngineAttached {
    type Process = EngineProcess;

    fn process(&self) -> &EngineProcess {
        &self.process
    }

    async fn finish_output(&self) {
        let mut is_copied = self.is_copied.clone();
        // A command that does not read must not keep its program.
        let _ = tokio::time::timeout(REST, is_copied.wait_for(|copied| *copied)).await;
    }

    fn take_note(&self) -> Option<String> {
        None
    }

    /// The guest keeps what programs in the background write.
    fn drain(&self, _: OwnedFd) {}
}

/// Starts a program, and connects its streams.
pub(super) async fn attach(
    sandbox: &EngineSandbox,
    program: Program,
) -> Result<(EngineAttached, AttachedStreams)> {
    let stdio = program.stdio;
    let ends = match stdio {
        Stdio::Pipes => None,
        Stdio::Terminal { rows, columns } => Some(open_terminal(rows, columns).map_err(no_pipe)?),
    };
    let program = Program { buffer: BUFFER, label: Some(LABEL.to_owned()), ..program };
    let process = sandbox.start(program).await?;
    let (copied, is_copied) = watch::channel(false);
    let streams = match ends {
        None => connect_pipes(&process, copied)?,
        Some((outside, inside)) => {
            connect_terminal(&process, inside, copied)?;
            AttachedStreams::Terminal(outside)
        }
    };
    Ok((EngineAttached { process, is_copied }, streams))
}

fn connect_pipes(process: &EngineProcess, copied: watch::Sender<bool>) -> Result<AttachedStreams> {
    let (inside_stdin, stdin) = create_pipe()?;
    let (stdout, inside_stdout) = create_pipe()?;
    let (stderr, inside_stderr) = create_pipe()?;
    let input = receiver(inside_stdin)?;
    let outputs = [sender(inside_stdout)?, sender(inside_stderr)?];
    tokio::spawn(copy_input(process.clone(), input));
    let reading = process.clone();
    tokio::spawn(async move {
        copy_output(&reading, outputs).await;
        let _ = copied.send(true);
    });
    Ok(AttachedStreams::Pipes { stdin, stdout, stderr })
}

/// Copies the standard input of a program until it is closed, or the program takes no more.
async fn copy_input(process: EngineProcess, mut input: Receiver) {
    let mut buffer = vec![0; PIECE];
    while let Ok(length @ 1..) = input.read(&mut buffer).await {
        if write_all(&process, &buffer[..length]).await.is_err() {
            return;
        }
    }
    // A program that has ended has closed it.
    let _ = process.close_stdin().await;
}

async fn write_all(process: &EngineProcess, bytes: &[u8]) -> Result<()> {
    let mut rest = bytes;
    while !rest.is_empty() {
        let taken = process.write_stdin(rest.to_vec(), TURN).await?;
        rest = &rest[taken.min(rest.len())..];
    }
    Ok(())
}

/// Copies the output of a program until it has ended. A pipe that nobody reads is closed.
async fn copy_output(process: &EngineProcess, outputs: [Sender; 2]) {
    let [stdout, stderr] = outputs;
    let mut outputs = [Some(stdout), Some(stderr)];
    let mut cursor = 0;
    while let Ok(output) = process.read(cursor, PIECE * 4, TURN).await {
        cursor = output.next;
        for chunk in output.chunks {
            let to = &mut outputs[usize::from(chunk.stream == Stream::Stderr)];
            if let Some(pipe) = to
                && pipe.write_all(&chunk.bytes).await.is_err()
            {
                *to = None;
            }
        }
        if output.exit.is_some() {
            return;
        }
    }
}

/// Opens a terminal of this machine: the side of the command, and the one that is connected to the terminal in the container,
/// which does all that a terminal does.
fn open_terminal(rows: u16, columns: u16) -> io::Result<(OwnedFd, OwnedFd)> {
    let outside = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY)?;
    // Not every system can do this when it is opened. This process starts no other one.
    fcntl_setfd(&outside, FdFlags::CLOEXEC)?;
    grantpt(&outside)?;
    unlockpt(&outside)?;
    let name = ptsname(&outside, Vec::new())?;
    let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let inside = rustix::fs::open(&name, flags, Mode::empty())?;
    let mut settings = tcgetattr(&inside)?;
    settings.make_raw();
    tcsetattr(&inside, OptionalActions::Now, &settings)?;
    tcsetwinsize(&inside, Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 })?;
    Ok((outside, inside))
}

fn connect_terminal(process: &EngineProcess, inside: OwnedFd, copied: watch::Sender<bool>) -> Result<()> {
    // A terminal is read and written as a pipe is.
    let output = inside.try_clone().and_then(Sender::from_owned_fd_unchecked).map_err(no_pipe)?;
    let input = inside.try_clone().and_then(Receiver::from_owned_fd_unchecked).map_err(no_pipe)?;
    let process = process.clone();
    tokio::spawn(async move {
        tokio::select! {
            () = copy_terminal_output(&process, output) => {}
            () = copy_terminal_input(&process, input) => {
                // The command has closed its side.
                let _ = process.signal(Signal::Hangup).await;
            }
            () = follow_size(&process, &inside) => {}
        }
        let _ = copied.send(true);
    });
    Ok(())
}

async fn copy_terminal_output(process: &EngineProcess, mut terminal: Sender) {
    let mut cursor = 0;
    while let Ok(output) = process.read(cursor, PIECE, TURN).await {
        cursor = output.next;
        for chunk in output.chunks {
            if terminal.write_all(&chunk.bytes).await.is_err() {
                return;
            }
        }
        if output.exit.is_some() {
            return;
        }
    }
}

async fn copy_terminal_input(process: &EngineProcess, mut terminal: Receiver) {
    let mut buffer = vec![0; PIECE];
    while let Ok(length @ 1..) = terminal.read(&mut buffer).await {
        // What a program that has ended does not take is lost with it.
        let _ = write_all(process, &buffer[..length]).await;
    }
}

/// Passes on the sizes that the command gives its terminal.
async fn follow_size(process: &EngineProcess, terminal: &OwnedFd) {
    let mut known = tcgetwinsize(terminal).ok();
    loop {
        tokio::time::sleep(RESIZE_INTERVAL).await;
        let Ok(size) = tcgetwinsize(terminal) else { continue };
        let is_same = known.is_some_and(|known| (known.ws_row, known.ws_col) == (size.ws_row, size.ws_col));
        if is_same || size.ws_row == 0 || size.ws_col == 0 {
            continue;
        }
        known = Some(size);
        // A process that has ended needs no size.
        let resized: Result<()> = process.resize(size.ws_row, size.ws_col).await;
        if matches!(resized, Err(Error { code: Code::NotFound, .. })) {
            return;
        }
    }
}
