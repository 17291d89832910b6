//! The background process that runs the sandboxes of a session.

use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures_util::StreamExt as _;
use koze_core::progress::{self, Event};
use koze_core::sandbox::Status;
use koze_core::tool::{All, Catalog};
use koze_core::{Code, Error, Progress, Result, Sandbox as _, SandboxId, SandboxName, SessionId};
use serde_json::value::RawValue;
use tokio::io::{AsyncReadExt as _, BufReader};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Mutex as AsyncMutex;
use tokio::time::MissedTickBehavior;

use super::host::{Host, called_by, reporting};
use super::message::{Act, Answer, Ask, Request};
use super::program::{IDLE, READY, program_for};
use super::state::State;
use super::{descriptors, exec, files, http, no_sandbox, processes, trees, wire};
use crate::provider::{self, EngineKind, MachineProvider, MachineSandbox as _, Secrets};

/// The default idle timeout.
const IDLE_DEFAULT: Duration = Duration::from_mins(1);
/// The interval of the idle check.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// Runs the sandboxes of a session, whose provider `open` opens, until they are no longer needed. Prints on standard output
/// that it listens, or why it cannot.
///
/// # Errors
/// Returns an error if the state directory or the socket cannot be used.
pub(crate) fn run<P: MachineProvider>(
    state: &State,
    session: &SessionId,
    engine: Option<EngineKind>,
    open: impl FnOnce(&Path, Secrets, PathBuf) -> Result<P> + Send + 'static,
) -> Result<()> {
    // Call this first, because it closes all open descriptors.
    descriptors::close_inherited();
    // Ignore a closing terminal and its Ctrl-C.
    let _ = rustix::process::setsid();
    let (state, session) = (state.clone(), session.clone());
    let null = fs::File::open("/dev/null").map_err(start_error)?;
    provider::block_on(async move {
        let started = Supervisor::start(&state, &session, engine, open);
        let output = match &started {
            Ok(_) => READY.to_owned(),
            Err(error) => serde_json::to_string(error).unwrap_or_default(),
        };
        let _ = writeln!(io::stdout(), "{output}");
        // The starting command waits for the end of this output.
        rustix::stdio::dup2_stdout(&null).map_err(|error| start_error(error.into()))?;
        let (supervisor, listener) = started?;
        supervisor.serve(listener).await;
        Ok(())
    })?
}

struct Supervisor<P> {
    state: State,
    /// Identifies this program to its clients.
    program: String,
    host: Arc<Host<P>>,
    calls: AtomicUsize,
    used: Mutex<Instant>,
    /// The socket's device and inode. Its path may belong to another supervisor by now.
    place: Option<(u64, u64)>,
    idle: Duration,
}

impl<P: MachineProvider> Supervisor<P> {
    /// Opens the sandboxes of a session with `open`, and listens.
    fn start(
        state: &State,
        session: &SessionId,
        engine: Option<EngineKind>,
        open: impl FnOnce(&Path, Secrets, PathBuf) -> Result<P>,
    ) -> Result<(Arc<Self>, UnixListener)> {
        state.make()?;
        if let Some(engine) = engine {
            state.record_engine(session, engine)?;
        }
        let provider = open(&state.sandboxes(session), state.secrets(), state.journal())?;
        let listener = bind_socket(state, session).map_err(start_error)?;
        let told = std::env::var(IDLE).ok().and_then(|idle| idle.parse().ok());
        let supervisor = Supervisor {
            state: state.clone(),
            program: program_for(engine),
            host: Arc::new(Host::new(session.clone(), provider)),
            calls: AtomicUsize::new(0),
            used: Mutex::new(Instant::now()),
            place: socket_identity(state, session),
            idle: told.map_or(IDLE_DEFAULT, Duration::from_millis),
        };
        Ok((Arc::new(supervisor), listener))
    }

    async fn serve(self: Arc<Self>, listener: UnixListener) {
        let mut look = tokio::time::interval(POLL_INTERVAL);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                accepted = listener.accept() => self.handle_connection(accepted).await,
                _ = look.tick() => if self.should_exit().await { break },
            }
        }
        self.retire();
        // Serve the connections that are already queued.
        loop {
            tokio::select! {
                biased;
                accepted = listener.accept() => self.handle_connection(accepted).await,
                () = tokio::time::sleep(POLL_INTERVAL / 10) => if self.calls.load(Ordering::Acquire) == 0 { break },
            }
        }
        // The end of this process would kill code contexts before they have written what they buffer.
        let _ = self.host.provider.sleep().await;
    }

    /// Removes the socket, so that new calls start a new supervisor.
    fn retire(&self) {
        if !self.host.retire() && self.is_found() {
            let _ = fs::remove_file(self.state.socket(&self.host.id));
        }
    }

    /// Returns whether the path still leads to this socket. The state directory may have been deleted.
    fn is_found(&self) -> bool {
        self.place.is_some() && self.place == socket_identity(&self.state, &self.host.id)
    }

    async fn handle_connection<A>(self: &Arc<Self>, accepted: io::Result<(UnixStream, A)>) {
        match accepted {
            Ok((stream, _)) if is_same_user(&stream) => {
                self.calls.fetch_add(1, Ordering::AcqRel);
                tokio::spawn(Arc::clone(self).answer_request(stream));
            }
            Ok((mut stream, _)) => {
                let answer = Answer::Failed(Error::new(
                    Code::PermissionDenied,
                    "the sandboxes of this session belong to another user; choose another directory with --state",
                ));
                tokio::spawn(async move { wire::send(&mut stream, &answer).await });
            }
            // Too many open files. Some may be closed in a moment.
            Err(_) => tokio::time::sleep(POLL_INTERVAL).await,
        }
    }

    /// Returns whether to exit: on request, if no client can find the socket, or if no call arrived for a while and no
    /// sandbox runs.
    async fn should_exit(&self) -> bool {
        if self.host.is_retired() || !self.is_found() {
            return true;
        }
        let used = *self.used.lock().unwrap_or_else(PoisonError::into_inner);
        if self.calls.load(Ordering::Acquire) > 0 || used.elapsed() < self.idle {
            return false;
        }
        // Do not wait for a registry that cannot be read.
        let list = self.host.provider.list(&self.host.id).await.unwrap_or_default();
        list.iter().all(|info| info.status == Status::Sleeping)
    }

    async fn answer_request(self: Arc<Self>, stream: UnixStream) {
        let (read, write) = stream.into_split();
        let write = Arc::new(AsyncMutex::new(write));
        let mut read = BufReader::new(read);
        if let Ok(Some(request)) = wire::receive::<Request<Box<RawValue>>>(&mut read).await {
            let answer = if request.program == self.program {
                match serde_json::from_str(request.ask.get()) {
                    // Boxed, because its state is large.
                    Ok(ask) => Box::pin(self.perform_request(ask, read, &write)).await,
                    Err(error) => Some(Answer::Failed(Error::new(Code::Internal, error.to_string()))),
                }
            } else {
                self.retire();
                Some(Answer::Stale)
            };
            if let Some(answer) = answer {
                let _ = wire::send(&mut *write.lock().await, &answer).await;
            }
            // A connection without a request only asks whether this process runs.
            *self.used.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        }
        self.calls.fetch_sub(1, Ordering::AcqRel);
    }

    /// Confirms the start of a request and performs it.
    async fn perform_request(
        self: &Arc<Self>,
        ask: Ask,
        read: BufReader<OwnedReadHalf>,
        write: &Arc<AsyncMutex<OwnedWriteHalf>>,
    ) -> Option<Answer> {
        // A separate binding releases the lock before the answer is written.
        let begun = wire::send(&mut *write.lock().await, &Answer::Begun).await;
        match ask {
            _ if begun.is_err() => None,
            Ask::File(request) => files::serve(&self.host, request, read, write).await,
            Ask::Tree(request) => trees::serve(&self.host, request, read, write).await,
            Ask::Exec(request) => exec::serve(&self.host, request, read, write).await,
            Ask::Do(act) => self.until_gone(act, read, write).await,
        }
    }

    /// Performs a request until it is done or the client disconnects.
    async fn until_gone(
        &self,
        act: Act,
        mut read: BufReader<OwnedReadHalf>,
        write: &AsyncMutex<OwnedWriteHalf>,
    ) -> Option<Answer> {
        let mut nothing = [0];
        tokio::select! {
            done = self.perform_act(act, write) => Some(done.unwrap_or_else(Answer::Failed)),
            _ = read.read(&mut nothing) => None,
        }
    }

    async fn perform_act(&self, act: Act, write: &AsyncMutex<OwnedWriteHalf>) -> Result<Answer> {
        match act {
            Act::Call { profiles, toolset, tool, input, progress, client } => {
                let catalog = Catalog::<All>::select(&profiles, toolset.as_deref())?;
                let session = called_by(&*self.host.session(profiles).await?, client.as_deref());
                if !progress {
                    return Ok(Answer::Replied(catalog.call(&session, &tool, input).await));
                }
                let (progress, reports) = Progress::channel();
                let session = reporting(&session, Some(progress));
                let call = async move { catalog.call(&session, &tool, input).await };
                let mut events = pin!(progress::follow(call, reports));
                loop {
                    match events.next().await {
                        Some(Event::Output(chunk)) => {
                            let answer = Answer::printed(chunk);
                            // If the client is gone, this ends, too.
                            let _ = wire::send(&mut *write.lock().await, &answer).await;
                        }
                        Some(Event::Done(reply)) => return Ok(Answer::Replied(reply)),
                        None => unreachable!("the reply is the last event"),
                    }
                }
            }
            Act::Copy { profiles, from, to } => {
                trees::between(&self.host, profiles, &from, &to).await?;
                Ok(Answer::Done)
            }
            Act::Destroy { name } => {
                let id = SandboxId { session: self.host.id.clone(), name: SandboxName::new(&name)? };
                let there = self.host.provider.find(&id).await?;
                there.ok_or_else(|| no_sandbox(&name))?.sandbox.destroy().await?;
                Ok(Answer::Done)
            }
            Act::Http { profiles, request } => {
                http::answer_request(&self.host, profiles, request, write).await
            }
            Act::Measure => Ok(Answer::Measured(self.host.provider.measure(&self.host.id).await?)),
            Act::PreviewPort => Ok(Answer::PreviewPort(self.host.provider.preview_port())),
            Act::Sleep { name } => {
                self.host.existing(&name).await?.sleep().await?;
                Ok(Answer::Done)
            }
            Act::Processes { name } => processes::list(&self.host, &name).await,
            Act::Signal { name, id, number } => processes::signal(&self.host, &name, &id, number).await,
            Act::Logs { name, id, follow } => {
                processes::report_output(&self.host, &name, id.as_deref(), follow, write).await
            }
            Act::Stop => {
                self.retire();
                Ok(Answer::Done)
            }
        }
    }
}

/// Returns whether the client belongs to this user.
fn is_same_user(stream: &UnixStream) -> bool {
    stream.peer_cred().is_ok_and(|peer| peer.uid() == rustix::process::geteuid().as_raw())
}

/// Returns the device and inode at the path of the socket.
fn socket_identity(state: &State, session: &SessionId) -> Option<(u64, u64)> {
    let about = fs::symlink_metadata(state.socket(session)).ok()?;
    Some((about.dev(), about.ino()))
}

/// Listens, replacing the socket of a killed supervisor. The starting command has made sure that none runs.
fn bind_socket(state: &State, session: &SessionId) -> io::Result<UnixListener> {
    match fs::remove_file(state.socket(session)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    UnixListener::bind(state.short_socket(session)?.path())
}

fn start_error(error: io::Error) -> Error {
    Error::new(Code::Unavailable, format!("the supervisor of this session cannot start: {error}"))
        .with_source(error)
}
