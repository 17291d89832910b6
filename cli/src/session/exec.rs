//! Programs that commands run in sandboxes. The supervisor passes the command the other ends of the program's standard
//! streams, so that neither input nor output goes through the supervisor.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use koze_core::sandbox::process::{Exit, Overflow, Process as _, Program, Signal, SignalOnDrop, Stdio};
use koze_core::{Code, Error, Result, Sandbox as _};
use tokio::io::{AsyncReadExt as _, BufReader};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::Mutex as AsyncMutex;

use super::client::{Client, ended, odd, unreachable};
use super::files::{pass_all, send_confirmation};
use super::host::Host;
use super::message::{Answer, Ask, ExecRequest, ExecStreams, Tell};
use super::wire;
use crate::provider::{AttachedProgram, AttachedStreams, MachineProvider, MachineSandbox as _};

/// How much output of a detached program is kept, in bytes.
const KEPT: usize = 1 << 20;
/// The exit code of a program whose time was up, as of `timeout`.
const TIMED_OUT: i32 = 124;
/// The exit code of a program that was killed with its sandbox.
const KILLED: i32 = 137;

/// Why a program does not run.
#[derive(Debug)]
pub enum ExecError {
    /// The sandbox runs, but the program cannot be started.
    NotStarted(Error),
    /// The sandbox or the supervisor failed.
    Failed(Error),
}

/// What became of a request to run a program.
#[derive(Debug)]
pub enum Ran {
    /// It runs as long as this command attends it.
    Attached(Attending),
    /// It goes on without this command. This is the ID of its process.
    Detached(String),
}

/// A program that this command attends. It is killed when its reports are dropped.
#[derive(Debug)]
pub struct Attending {
    /// This command's ends of its standard streams.
    pub streams: AttachedStreams,
    /// Reports its end.
    pub reports: Reports,
    /// Tells the supervisor what to do with it.
    pub tells: Tells,
}

/// Reports the end of a program.
#[derive(Debug)]
pub struct Reports(BufReader<OwnedReadHalf>);

/// Tells the supervisor what to do with a program.
#[derive(Debug)]
pub struct Tells(OwnedWriteHalf);

impl Client {
    /// Runs a program in a sandbox that exists.
    ///
    /// # Errors
    /// Returns the errors of the sandbox and the supervisor.
    pub async fn exec(&self, request: ExecRequest) -> std::result::Result<Ran, ExecError> {
        let has_terminal = matches!(request.streams, ExecStreams::Terminal { .. });
        let mut stream = self.begin(Ask::Exec(request)).await.map_err(ExecError::Failed)?;
        match wire::receive::<Answer>(&mut stream).await {
            Ok(Some(Answer::Attached)) => {}
            Ok(Some(Answer::Detached { id })) => return Ok(Ran::Detached(id)),
            Ok(Some(Answer::NotStarted(error))) => return Err(ExecError::NotStarted(error)),
            Ok(Some(Answer::Failed(error))) => return Err(ExecError::Failed(error)),
            Ok(Some(_)) => return Err(ExecError::Failed(odd())),
            Ok(None) | Err(_) => return Err(ExecError::Failed(ended())),
        }
        // The descriptors are sent once nothing else can be read ahead of them.
        send_confirmation(&mut stream).await.map_err(ExecError::Failed)?;
        let stream = stream.into_inner();
        let received = wire::receive_descriptors(&stream).await;
        let received = received.map_err(|error| ExecError::Failed(unreachable(error)))?;
        let streams = to_streams(received, has_terminal).ok_or_else(|| ExecError::Failed(odd()))?;
        let (read, write) = stream.into_split();
        let (reports, tells) = (Reports(BufReader::new(read)), Tells(write));
        Ok(Ran::Attached(Attending { streams, reports, tells }))
    }
}

impl Reports {
    /// Waits until the program has ended. Returns its exit code, and why it was killed, if that does not tell.
    ///
    /// # Errors
    /// Returns the errors of the sandbox and the supervisor.
    pub async fn wait(&mut self) -> Result<(i32, Option<String>)> {
        match wire::receive::<Answer>(&mut self.0).await {
            Ok(Some(Answer::Exited { code, note })) => Ok((code, note)),
            Ok(Some(Answer::Failed(error))) => Err(error),
            Ok(Some(_)) => Err(odd()),
            Ok(None) | Err(_) => Err(ended()),
        }
    }
}

impl Tells {
    /// Sends a message to the supervisor. If it is gone, the program is, too.
    pub async fn send(&mut self, tell: &Tell) {
        let _ = wire::send(&mut self.0, tell).await;
    }
}

fn to_streams(received: Vec<OwnedFd>, has_terminal: bool) -> Option<AttachedStreams> {
    if has_terminal {
        let [terminal] = <[OwnedFd; 1]>::try_from(received).ok()?;
        return Some(AttachedStreams::Terminal(terminal));
    }
    let [stdin, stdout, stderr] = <[OwnedFd; 3]>::try_from(received).ok()?;
    Some(AttachedStreams::Pipes { stdin, stdout, stderr })
}

/// Serves such a request. Returns the last answer, if there is one.
pub(super) async fn serve(
    host: &Host<impl MachineProvider>,
    request: ExecRequest,
    mut read: BufReader<OwnedReadHalf>,
    write: &Arc<AsyncMutex<OwnedWriteHalf>>,
) -> Option<Answer> {
    handle_request(host, request, &mut read, write).await.unwrap_or_else(|error| Some(Answer::Failed(error)))
}

async fn handle_request(
    host: &Host<impl MachineProvider>,
    request: ExecRequest,
    read: &mut BufReader<OwnedReadHalf>,
    write: &Arc<AsyncMutex<OwnedWriteHalf>>,
) -> Result<Option<Answer>> {
    let ExecRequest { profiles, sandbox, argv, env, working_dir, streams, timeout } = request;
    // The current policy applies to the program.
    host.session(profiles).await?;
    let sandbox = host.existing(&sandbox).await?;
    let mut program = Program { env, ..Program::new(argv, working_dir) };
    match streams {
        ExecStreams::Pipes => {}
        ExecStreams::Terminal { rows, columns } => program.stdio = Stdio::Terminal { rows, columns },
        ExecStreams::Kept => {
            program.buffer = KEPT;
            program.overflow = Overflow::DropOldest;
            return Ok(Some(match sandbox.start(program).await {
                Ok(process) => {
                    process.close_stdin().await?;
                    Answer::Detached { id: process.id().to_string() }
                }
                Err(error) => Answer::NotStarted(error),
            }));
        }
    }
    program.attended = true;
    match sandbox.attach(program).await {
        Ok((attached, streams)) => attend(&attached, streams, timeout, read, write).await,
        Err(error) => Ok(Some(Answer::NotStarted(error))),
    }
}

/// Passes the client the streams of a program, and reports its end. Kills the program if the client is gone earlier.
async fn attend<A: AttachedProgram>(
    attached: &A,
    streams: AttachedStreams,
    timeout: Option<Duration>,
    read: &mut BufReader<OwnedReadHalf>,
    write: &Arc<AsyncMutex<OwnedWriteHalf>>,
) -> Result<Option<Answer>> {
    let process = attached.process();
    let kill = SignalOnDrop::new(process, Signal::Kill);
    let held = HeldOutputs::clone_from(&streams)?;
    if !pass_all(&Answer::Attached, &descriptors(&streams), read, write).await {
        return Ok(None);
    }
    // From now on, the program sees that the client closes its standard input or its terminal.
    drop(streams);
    let exit = tokio::select! {
        exit = process.supervise(timeout.unwrap_or(Duration::MAX)) => exit,
        () = follow_client(process, read, &held) => return Ok(None),
    };
    kill.release();
    attached.finish_output().await;
    let answer = match exit {
        Ok(Some(Exit { code })) => Answer::Exited { code, note: attached.take_note() },
        Ok(None) => Answer::Exited { code: TIMED_OUT, note: None },
        Err(error) if error.code == Code::NotFound => {
            Answer::Exited { code: KILLED, note: Some("the sandbox was stopped".to_owned()) }
        }
        Err(error) => return Err(error),
    };
    let _ = wire::send(&mut *write.lock().await, &answer).await;
    // The client reads what is left in the pipes, and then disconnects.
    let mut ignored = [0; 64];
    while matches!(read.read(&mut ignored).await, Ok(1..)) {}
    for pipe in held.take() {
        attached.drain(pipe);
    }
    Ok(None)
}

/// Does what a client tells until it is gone.
async fn follow_client(
    process: &impl koze_core::sandbox::process::Process,
    read: &mut BufReader<OwnedReadHalf>,
    held: &HeldOutputs,
) {
    loop {
        match wire::receive::<Tell>(read).await {
            Ok(Some(Tell::Signal { number })) => {
                if let Some(signal) = Signal::from_number(number) {
                    // A process that cannot be reached has ended.
                    let _ = process.signal(signal).await;
                }
            }
            Ok(Some(Tell::Closed { stderr })) => held.close(stderr),
            Ok(None) | Err(_) => return,
        }
    }
}

fn descriptors(streams: &AttachedStreams) -> Vec<BorrowedFd<'_>> {
    match streams {
        AttachedStreams::Pipes { stdin, stdout, stderr } => {
            vec![stdin.as_fd(), stdout.as_fd(), stderr.as_fd()]
        }
        AttachedStreams::Terminal(terminal) => vec![terminal.as_fd()],
    }
}

/// The ends of the output pipes that the client reads. They stay open for programs that outlive the attached one, which
/// would else be killed by their next output.
struct HeldOutputs {
    stdout: Mutex<Option<OwnedFd>>,
    stderr: Mutex<Option<OwnedFd>>,
}

impl HeldOutputs {
    fn clone_from(streams: &AttachedStreams) -> Result<Self> {
        let mut held = HeldOutputs { stdout: Mutex::new(None), stderr: Mutex::new(None) };
        // A terminal hangs up when the client closes it.
        if let AttachedStreams::Pipes { stdout, stderr, .. } = streams {
            held.stdout = Mutex::new(Some(stdout.try_clone().map_err(no_descriptor)?));
            held.stderr = Mutex::new(Some(stderr.try_clone().map_err(no_descriptor)?));
        }
        Ok(held)
    }

    /// Closes a pipe that nobody reads, so that the program learns of it.
    fn close(&self, stderr: bool) {
        let pipe = if stderr { &self.stderr } else { &self.stdout };
        pipe.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    fn take(self) -> impl Iterator<Item = OwnedFd> {
        [self.stdout, self.stderr]
            .into_iter()
            .filter_map(|pipe| pipe.into_inner().unwrap_or_else(PoisonError::into_inner))
    }
}

fn no_descriptor(error: io::Error) -> Error {
    Error::new(Code::Unavailable, format!("the supervisor of this session is out of descriptors: {error}"))
        .with_source(error)
}
