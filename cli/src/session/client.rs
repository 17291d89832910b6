//! The client side of a command: connects to the supervisor of a session and starts it if necessary.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::net::UnixStream as StdStream;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::time::Duration;

use koze_core::tool::{Input, Reply};
use koze_core::{Code, Error, Profiles, Progress, Result, SessionId};
use tokio::io::{AsyncWriteExt as _, BufStream};
use tokio::net::UnixStream;

use super::message::{Act, Answer, Ask, Request, decode_output};
use super::program::{IDLE, READY, own_path, program_for};
use super::state::{self, State};
use super::wire;
use crate::provider::{self, ENGINE_VARIABLES, IMAGES, Measured, TEST_NAMES};

/// The number of attempts to reach a supervisor that is just exiting.
const MAX_ATTEMPTS: usize = 50;
/// The variables that name certificate authorities, for the requests of scripts.
const CERTIFICATES: [&str; 2] = ["SSL_CERT_FILE", "SSL_CERT_DIR"];
/// The pause between attempts.
const PAUSE: Duration = Duration::from_millis(20);

/// A connection to a supervisor.
pub(super) type Stream = BufStream<UnixStream>;

/// A client of a session's sandboxes.
#[derive(Debug, Clone)]
pub struct Client {
    state: State,
    session: SessionId,
    /// Its name in the journal of tool calls.
    name: Option<String>,
}

impl Client {
    /// Creates a client for a session in a state directory. The journal does not record the calls of a client without a name.
    pub fn new(state: State, session: SessionId) -> Self {
        Client { state, session, name: None }
    }

    /// Returns the same client with a name, for the journal of tool calls.
    #[must_use]
    pub fn named(self, name: impl Into<String>) -> Self {
        Client { name: Some(name.into()), ..self }
    }

    /// Returns the state directory.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// Returns the session.
    pub fn session(&self) -> &SessionId {
        &self.session
    }

    /// Calls a tool of a toolset, or of the project's default one without `toolset`. Dropping the future cancels the call
    /// and kills its command.
    ///
    /// # Errors
    /// Returns the errors of the tool and of the supervisor.
    pub async fn call(
        &self,
        profiles: Profiles,
        toolset: Option<&str>,
        tool: &str,
        input: impl Into<Input>,
    ) -> Result<Reply> {
        self.call_reporting(profiles, toolset, tool, input, None).await
    }

    /// Calls a tool, and reports what its programs print to `progress`, if it is given.
    ///
    /// # Errors
    /// As [`call`](Self::call).
    pub(crate) async fn call_reporting(
        &self,
        profiles: Profiles,
        toolset: Option<&str>,
        tool: &str,
        input: impl Into<Input>,
        progress: Option<Progress>,
    ) -> Result<Reply> {
        let (toolset, tool, reports) = (toolset.map(str::to_owned), tool.to_owned(), progress.is_some());
        let client = self.name.clone();
        let act = Act::Call { profiles, toolset, tool, input: input.into(), progress: reports, client };
        match self.ask_reporting(act, progress).await? {
            Answer::Replied(reply) => reply,
            _ => Err(odd()),
        }
    }

    /// Destroys a sandbox and deletes its files.
    ///
    /// # Errors
    /// Returns [`Code::NotFound`] if no sandbox has this name, and the errors of the supervisor.
    pub async fn destroy(&self, name: &str) -> Result<()> {
        match self.ask_supervisor(Act::Destroy { name: name.to_owned() }).await? {
            Answer::Done => Ok(()),
            _ => Err(odd()),
        }
    }

    /// Copies a file or tree from a path of one sandbox to a path of another one, which is created on first use.
    ///
    /// # Errors
    /// Returns the errors of both sandboxes and of the supervisor.
    pub async fn copy(&self, profiles: Profiles, from: (String, String), to: (String, String)) -> Result<()> {
        match self.ask_supervisor(Act::Copy { profiles, from, to }).await? {
            Answer::Done => Ok(()),
            _ => Err(odd()),
        }
    }

    /// Returns the port on the loopback interface at which the supervisor serves previews, if it does.
    ///
    /// # Errors
    /// Returns the errors of the supervisor.
    pub(crate) async fn preview_port(&self) -> Result<Option<u16>> {
        match self.ask_supervisor(Act::PreviewPort).await? {
            Answer::PreviewPort(port) => Ok(port),
            _ => Err(odd()),
        }
    }

    /// Stops the supervisor if it runs. Its sandboxes go to sleep.
    ///
    /// # Errors
    /// Returns an error if the supervisor cannot be reached.
    pub async fn stop(&self) -> Result<()> {
        match self.connect() {
            Ok(stream) => {
                let request = Request { program: self.program()?, ask: Ask::Do(Act::Stop) };
                if let Some(mut stream) = send_request(stream, &request).await? {
                    let _ = wire::receive::<Answer>(&mut stream).await;
                }
                Ok(())
            }
            Err(error) if has_no_listener(&error) => Ok(()),
            Err(error) => Err(unreachable(error)),
        }
    }

    /// Returns whether the supervisor runs. Does not start it.
    pub(crate) fn is_running(&self) -> bool {
        connect(&self.state, &self.session).is_ok()
    }

    /// Measures the sandboxes of the session that run. Does not start a supervisor.
    ///
    /// # Errors
    /// Returns an error if the supervisor cannot be reached.
    pub(crate) async fn measure(&self) -> Result<Vec<Measured>> {
        let stream = match self.connect() {
            Ok(stream) => stream,
            Err(error) if has_no_listener(&error) => return Ok(Vec::new()),
            Err(error) => return Err(self.state.named_in(unreachable(error))),
        };
        let request = Request { program: self.program()?, ask: Ask::Do(Act::Measure) };
        let Some(mut stream) = send_request(stream, &request).await? else { return Ok(Vec::new()) };
        match wire::receive::<Answer>(&mut stream).await {
            Ok(Some(Answer::Measured(measured))) => Ok(measured),
            Ok(Some(Answer::Failed(error))) => Err(error),
            Ok(Some(_)) => Err(odd()),
            // It was about to exit.
            Ok(None) | Err(_) => Ok(Vec::new()),
        }
    }

    pub(super) async fn ask_supervisor(&self, act: Act) -> Result<Answer> {
        self.ask_reporting(act, None).await
    }

    async fn ask_reporting(&self, act: Act, progress: Option<Progress>) -> Result<Answer> {
        let mut stream = self.begin(Ask::Do(act)).await?;
        loop {
            match wire::receive::<Answer>(&mut stream).await {
                Ok(Some(Answer::Printed { stderr, data })) => {
                    let chunk = decode_output(stderr, &data).map_err(|_| odd())?;
                    // The supervisor waits meanwhile, and so does the program.
                    if let Some(progress) = &progress {
                        progress.report(chunk).await;
                    }
                }
                Ok(Some(Answer::Failed(error))) => return Err(error),
                Ok(Some(answer)) => return Ok(answer),
                Ok(None) | Err(_) => return Err(ended()),
            }
        }
    }

    /// Sends a request and waits until the supervisor begins.
    pub(super) async fn begin(&self, ask: Ask) -> Result<Stream> {
        let request = Request { program: self.program()?, ask };
        for _ in 0..MAX_ATTEMPTS {
            let stream = match self.connect() {
                Ok(stream) => stream,
                Err(error) if has_no_listener(&error) => {
                    self.start().await.map_err(|error| self.state.named_in(error))?
                }
                Err(error) => return Err(self.state.named_in(unreachable(error))),
            };
            if let Some(stream) = send_request(stream, &request).await? {
                return Ok(stream);
            }
            // The supervisor was about to exit. Try again with the next one.
            tokio::time::sleep(PAUSE).await;
        }
        Err(Error::new(Code::Unavailable, "the supervisor of this session keeps ending"))
    }

    /// Identifies the supervisor that answers this client.
    fn program(&self) -> Result<String> {
        Ok(program_for(self.state.engine_of(&self.session)?))
    }

    fn connect(&self) -> io::Result<UnixStream> {
        connect(&self.state, &self.session)
    }

    /// Starts the supervisor, or waits for another command that is starting it, and connects.
    async fn start(&self) -> Result<UnixStream> {
        let (state, session) = (self.state.clone(), self.session.clone());
        let started = tokio::task::spawn_blocking(move || start(&state, &session)).await;
        started.map_err(|error| unreachable(io::Error::other(error)))?
    }
}

/// Connects within a runtime. Connecting does not block: the kernel answers for the listener.
fn connect(state: &State, session: &SessionId) -> io::Result<UnixStream> {
    let socket = state.short_socket(session)?;
    let stream = StdStream::connect(socket.path())?;
    stream.set_nonblocking(true)?;
    let stream = UnixStream::from_std(stream)?;
    // Check before sending anything.
    check_server(&stream)?;
    Ok(stream)
}

/// Returns an error if the listener belongs to another user.
fn check_server(stream: &UnixStream) -> io::Result<()> {
    let peer = stream.peer_cred()?.uid();
    if peer == rustix::process::geteuid().as_raw() {
        return Ok(());
    }
    let text = format!(
        "its socket is served by another user (uid {peer}), so nothing was sent; choose another state directory with --state"
    );
    Err(io::Error::new(io::ErrorKind::PermissionDenied, text))
}

fn start(state: &State, session: &SessionId) -> Result<UnixStream> {
    state.make()?;
    let start_lock = File::create(state.supervisors().join(format!("{}.start", state::stem(session))));
    let _start_lock = start_lock.and_then(|lock| lock.lock().map(|()| lock)).map_err(unreachable)?;
    match connect(state, session) {
        Err(error) if has_no_listener(&error) => {}
        connected => return connected.map_err(unreachable),
    }
    let mut command = Command::new(own_path().map_err(unreachable)?);
    // The path says nothing in a list of processes.
    command.arg0("koze").arg("supervise").arg("--state").arg(state.dir());
    let engine = state.engine_of(session)?;
    if let Some(engine) = engine {
        command.args(["--engine", engine.program()]);
    }
    // As one argument, because a session's name may start with a hyphen.
    command.arg(format!("--session={}", session.session()));
    // The supervisor outlives this command, so it must not inherit the shell's environment.
    command.env_clear().current_dir("/").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    for name in [IDLE, TEST_NAMES] {
        if let Some(value) = std::env::var_os(name) {
            command.env(name, value);
        }
    }
    // The engine may listen anywhere.
    for name in ENGINE_VARIABLES.into_iter().filter(|_| engine.is_some()) {
        if let Some(value) = std::env::var_os(name) {
            command.env(name, value);
        }
    }
    // The supervisor runs in another directory.
    for name in CERTIFICATES {
        if let Some(path) = std::env::var_os(name).and_then(|path| std::path::absolute(path).ok()) {
            command.env(name, path);
        }
    }
    // Nor does it know the user's home.
    if let Some(images) = provider::images_directory() {
        command.env(IMAGES, images);
    }
    let mut child = command.spawn().map_err(unreachable)?;
    let mut printed = String::new();
    if let Some(stdout) = child.stdout.as_mut() {
        stdout.read_to_string(&mut printed).map_err(unreachable)?;
    }
    // Reap the child if this program is still running when it exits.
    std::thread::spawn(move || child.wait());
    match printed.trim_end() {
        READY => connect(state, session).map_err(unreachable),
        "" => Err(Error::new(Code::Unavailable, "the supervisor of this session ended while it was started")),
        error => Err(serde_json::from_str(error).unwrap_or_else(|_| odd())),
    }
}

/// Sends a request. Returns `None` if the supervisor exited, or is about to, without doing anything.
async fn send_request(stream: UnixStream, request: &Request<Ask>) -> Result<Option<Stream>> {
    let mut stream = BufStream::new(stream);
    let sent = async {
        wire::send(&mut stream, request).await?;
        stream.flush().await
    };
    // The answer may have arrived even if sending failed.
    let _ = sent.await;
    match wire::receive::<Answer>(&mut stream).await {
        Ok(Some(Answer::Begun)) => Ok(Some(stream)),
        Ok(Some(Answer::Failed(error))) => Err(error),
        Ok(Some(Answer::Stale) | None) | Err(_) => Ok(None),
        Ok(Some(_)) => Err(odd()),
    }
}

/// Returns whether the error means that nothing listens. If listening is impossible, creating the state directory
/// reports why.
fn has_no_listener(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionRefused, NotADirectory, NotFound};
    matches!(error.kind(), NotFound | NotADirectory | ConnectionRefused)
}

pub(super) fn unreachable(error: io::Error) -> Error {
    Error::new(Code::Unavailable, format!("the supervisor of this session cannot be reached: {error}"))
        .with_source(error)
}

pub(super) fn ended() -> Error {
    let message = "the supervisor of this session ended during the call; the next call starts it again";
    Error::new(Code::Unavailable, message)
}

pub(super) fn odd() -> Error {
    Error::new(Code::Internal, "the supervisor of this session returned an unexpected answer")
}
