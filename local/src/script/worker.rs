//! One process of scripts, as seen by the host.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

use koze_script::frame::{self, Incoming};
use koze_script::limits::{CALLS, LOG_BYTES, LOG_LINES, Limit, Limits};
use koze_script::protocol::{Failure, FromScript, Json, ToScript};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};
use rustix::process::{Signal, WaitId, WaitIdOptions};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};

use super::super::engine::engine;
use super::super::launch::{self, Launched, Spec};
use super::super::ready::watched;
use super::serve::PACKET;
use koze_core::error::{Code, Error, Result};
use koze_core::script::Ran;

/// The time after its limit at which a script is killed, if it has not ended by itself.
const GRACE: Duration = Duration::from_millis(50);
/// The timeout for compiling.
const CHECK: Duration = Duration::from_secs(10);

/// The connection between a script and its caller.
#[derive(Debug)]
pub(super) struct Talk {
    /// The calls of the script, by number.
    pub(super) asking: UnboundedSender<(u64, Json)>,
    /// The answers. Closed when the caller no longer waits for the script.
    pub(super) answers: UnboundedReceiver<(u64, std::result::Result<Json, String>)>,
}

/// The state of a process after a script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// It can run the next one.
    Reusable,
    /// It was killed, or is no longer trusted.
    Over,
}

/// A process of scripts. It is killed when this is dropped.
#[derive(Debug)]
pub(super) struct Worker {
    reading: AsyncFd<Arc<OwnedFd>>,
    writing: AsyncFd<Arc<OwnedFd>>,
    process: Arc<OwnedFd>,
    incoming: Incoming,
    scripts: u32,
}

impl Worker {
    /// Starts a process. Call this within the engine's runtime.
    pub(super) async fn start(spec: Spec) -> Result<Self> {
        let (Launched { socket, process, .. }, _) = launch::launch(spec, None).await?;
        let process = Arc::new(process.descriptor);
        let made = || {
            let flags = rustix::fs::fcntl_getfl(&socket)?;
            rustix::fs::fcntl_setfl(&socket, flags | rustix::fs::OFlags::NONBLOCK)?;
            let reading = watched(Arc::new(socket.try_clone()?), Interest::READABLE)?;
            Ok::<_, io::Error>((reading, watched(Arc::new(socket), Interest::WRITABLE)?))
        };
        match made() {
            Ok((reading, writing)) => {
                Ok(Worker { reading, writing, process, incoming: Incoming::default(), scripts: 0 })
            }
            Err(error) => {
                end(&process);
                let text = format!("the process of a script cannot be reached: {error}");
                Err(Error::new(Code::Internal, text).with_source(error))
            }
        }
    }

    /// Returns how many scripts it has run.
    pub(super) fn scripts(&self) -> u32 {
        self.scripts
    }

    pub(super) fn has_ended(&self) -> bool {
        let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        !matches!(rustix::process::waitid(WaitId::PidFd(self.process.as_fd()), look), Ok(None))
    }

    /// Runs a script. Kills the process if the script does not end within its time.
    pub(super) async fn run(&mut self, message: &ToScript, talk: &mut Talk) -> Result<(Ran, End)> {
        self.scripts += 1;
        let limits = match message {
            ToScript::Start(start) => start.limits,
            _ => {
                Limits { time_ms: u64::try_from(CHECK.as_millis()).unwrap_or(u64::MAX), ..Limits::default() }
            }
        };
        let mut run = Run { outgoing: VecDeque::new(), logs: Vec::new(), bytes: 0, calls: 0 };
        run.queue(message).map_err(|error| {
            Error::new(Code::TooLarge, "the script, its arguments and its libraries are too long")
                .with_source(error)
        })?;
        let time = Duration::from_millis(limits.time_ms) + GRACE;
        let (result, end) = match tokio::time::timeout(time, self.exchange(&mut run, talk)).await {
            Ok(Ok(result)) => (result, End::Reusable),
            Ok(Err(Broken::Gone)) => (Err(ended(&limits)), End::Over),
            Ok(Err(Broken::Unwanted)) => {
                return Err(Error::new(Code::Unavailable, "nobody waits for the script anymore"));
            }
            Err(_) => (Err(Failure::limited(&limits, Limit::Time)), End::Over),
        };
        let limit = result.as_ref().err().and_then(|failure| failure.limit);
        // A process that was short of memory may keep much of it.
        let end = if limit == Some(Limit::Memory) { End::Over } else { end };
        Ok((Ran::new(result, run.logs), end))
    }

    async fn exchange(&mut self, run: &mut Run, talk: &mut Talk) -> std::result::Result<Outcome, Broken> {
        loop {
            while let Some(message) = self.incoming.take::<FromScript>()? {
                match message {
                    FromScript::Done(done) => return Ok(done),
                    FromScript::Log(line) => run.log(line)?,
                    FromScript::Timer(_) => {}
                    FromScript::Call { id, call } => {
                        run.calls += 1;
                        // The engine never has more pending calls.
                        if run.calls > CALLS {
                            return Err(Broken::Gone);
                        }
                        talk.asking.send((id, call)).map_err(|_| Broken::Unwanted)?;
                    }
                }
            }
            tokio::select! {
                ready = self.reading.readable() => {
                    let mut packet = [0; PACKET];
                    let receive = |socket: &AsyncFd<Arc<OwnedFd>>| {
                        let (length, _) = rustix::net::recv(socket.get_ref(), &mut packet, RecvFlags::empty())?;
                        Ok(length)
                    };
                    match ready?.try_io(receive) {
                        Ok(Ok(0)) => return Err(Broken::Gone),
                        Ok(Ok(length)) => self.incoming.push(&packet[..length]),
                        Ok(Err(error)) => return Err(error.into()),
                        Err(_) => {}
                    }
                }
                ready = self.writing.writable(), if !run.outgoing.is_empty() => {
                    let send = |socket: &AsyncFd<Arc<OwnedFd>>| {
                        let packet = run.outgoing.front().map_or(&[][..], |packet| packet);
                        Ok(rustix::net::send(socket.get_ref(), packet, SendFlags::NOSIGNAL)?)
                    };
                    match ready?.try_io(send) {
                        Ok(Ok(_)) => drop(run.outgoing.pop_front()),
                        Ok(Err(error)) => return Err(error.into()),
                        Err(_) => {}
                    }
                }
                answer = talk.answers.recv() => {
                    let (id, result) = answer.ok_or(Broken::Unwanted)?;
                    run.calls = run.calls.saturating_sub(1);
                    if run.queue(&ToScript::Answer { id, result }).is_err() {
                        let result = Err("the answer of the host is too long".to_owned());
                        run.queue(&ToScript::Answer { id, result })?;
                    }
                }
            }
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        end(&self.process);
    }
}

type Outcome = std::result::Result<Json, Failure>;

/// Why a script did not end properly.
enum Broken {
    /// Its process is gone, or has violated the protocol.
    Gone,
    /// Its caller no longer waits.
    Unwanted,
}

impl From<io::Error> for Broken {
    fn from(_: io::Error) -> Self {
        Broken::Gone
    }
}

impl From<Errno> for Broken {
    fn from(_: Errno) -> Self {
        Broken::Gone
    }
}

/// The state of one run.
struct Run {
    /// The packets to send.
    outgoing: VecDeque<Vec<u8>>,
    logs: Vec<String>,
    /// The bytes of the log.
    bytes: usize,
    /// The pending calls.
    calls: usize,
}

impl Run {
    fn queue(&mut self, message: &ToScript) -> io::Result<()> {
        self.outgoing.extend(frame::encode(message)?.chunks(PACKET).map(<[u8]>::to_vec));
        Ok(())
    }

    fn log(&mut self, line: String) -> std::result::Result<(), Broken> {
        self.bytes += line.len();
        // The engine stops earlier, and adds one line that says so.
        if self.logs.len() > LOG_LINES || self.bytes > 2 * LOG_BYTES {
            return Err(Broken::Gone);
        }
        self.logs.push(line);
        Ok(())
    }
}

/// Returns the failure for a process that ended by itself: an allocation outside the engine's own heap has failed, or it made
/// a system call that is not allowed.
fn ended(limits: &Limits) -> Failure {
    let message = format!(
        "the process of the script ended: the script used more than its {} MiB of memory, or exceeded another limit of the \
         engine; keep less in memory at once",
        limits.memory >> 20
    );
    Failure { limit: Some(Limit::Memory), ..Failure::new(message) }
}

/// Kills a process, and reaps it.
fn end(process: &Arc<OwnedFd>) {
    let _ = rustix::process::pidfd_send_signal(process, Signal::KILL);
    if let Ok(engine) = engine() {
        let process = Arc::clone(process);
        engine.spawn_blocking(move || launch::reap(&process));
    }
}
