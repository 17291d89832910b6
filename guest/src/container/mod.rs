//! The guest as the first process of a container: the Durable Object reaches it over TCP, and nobody else gets in.
//!
//! It needs nothing of the image but `/proc`, `/dev/null` and `/etc/passwd` at most: no shell, no library. The threads:
//!
//! - the first one reaps, and hears the signals that end the container;
//! - one holds the connections that have not said hello (`door`);
//! - one reads what programs left in the background write (`drain`);
//! - the others serve one connection each, or work on one call each (`pool`). Whatever takes long happens there.
//!
//! In the container of Cloudflare's Sandbox SDK something else is the first process, and the guest runs `beside` it.
//!
//! Programs start by way of a child that shares this process's memory until it is another program (`spawn`
//! says why that is sound beside other threads); the guest is never copied, so nothing has to hold for a copy of it.
//! Every descriptor closes when another program is started.

mod bell;
mod beside;
mod budget;
mod call;
mod connection;
mod door;
mod drain;
mod environment;
mod exec;
pub mod frame;
mod link;
mod pool;
mod programs;
pub mod request;
mod shut;
mod stage;
pub mod streams;
pub mod table;
mod token;
mod work;

use std::collections::VecDeque;
use std::ffi::OsString;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use self::bell::Bell;
use self::beside::Ready;
use self::connection::Connection;
use self::drain::Drain;
use self::environment::Environment;
use self::frame::Decoder;
use self::link::Link;
use self::pool::Pool;
use self::programs::{Programs, Running};
use self::shut::Weak;
use self::token::Token;
use crate::message::Fault;
use crate::process::Streams;
use crate::sys;

/// The variable that names another address to listen at than the guest's own, such as `127.0.0.1:0`.
const LISTEN: &str = "KOZE_GUEST_LISTEN";
/// How many connections there are that have said hello. The class has one; more are there until it is noticed that
/// they are not.
const CONNECTIONS: usize = 8;
/// How long the image's own entrypoint has to end by itself when the container is stopped.
const GRACE: Duration = Duration::from_secs(5);

const USAGE: &str = "\
usage: koze-guest [-- PROGRAM ARGUMENT...]
       koze-guest --beside
       koze-guest --version

The first process of a container of koze, which the container's Durable Object talks to.
PROGRAM is the image's own entrypoint; it runs beside.
With --beside, the container has another first process: the guest runs in the background, and its port is printed.
";

/// What all threads share.
struct Guest {
    token: Token,
    environment: Environment,
    programs: Programs,
    drain: Drain,
    pool: Pool,
    connections: Mutex<VecDeque<Arc<Link>>>,
    writer: Mutex<()>,
    proc: bool,
}

impl Guest {
    /// Serves a connection that has said the token.
    fn connected(self: &Arc<Self>, socket: TcpStream, decoder: Decoder, protocol: u32) {
        let connection = Arc::new(Connection::new(Arc::clone(self), socket));
        let link = Arc::clone(&connection.link);
        let mut all = self.connections();
        all.push_back(Arc::clone(&link));
        while all.len() > CONNECTIONS {
            if let Some(oldest) = all.pop_front() {
                oldest.close();
            }
        }
        drop(all);
        let guest = Arc::clone(self);
        self.pool.run(move || {
            connection.serve(decoder, protocol);
            guest.connections().retain(|other| !Arc::ptr_eq(other, &link));
        });
    }

    fn connections(&self) -> MutexGuard<'_, VecDeque<Arc<Link>>> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The turn of those who put something in place.
    fn one_writer(&self) -> MutexGuard<'_, ()> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the container has what every call needs.
    fn usable(&self) -> Result<(), Fault> {
        if self.proc { Ok(()) } else { Err(work::no_proc()) }
    }
}

/// What `koze-guest` does.
pub fn main() -> ExitCode {
    let weak = Weak::asked_for();
    let hidden = shut::memory(weak);
    // SAFETY: nothing but this thread runs yet; it has kept nothing of the environment, and has opened nothing.
    #[allow(unsafe_code, reason = "said above")]
    let token = unsafe {
        sys::close_inherited();
        Token::take(weak)
    };
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    let mut beside = false;
    let entrypoint = match arguments.split_first() {
        None => None,
        Some((first, [])) if first == "--beside" => {
            beside = true;
            None
        }
        Some((first, [])) if first == "--version" => {
            println!("koze-guest {}", env!("CARGO_PKG_VERSION"));
            return ExitCode::SUCCESS;
        }
        Some((first, program)) if first == "--" && !program.is_empty() => Some(program.to_vec()),
        Some(_) => {
            eprint!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    let Some(token) = token else {
        say(&format!(
            "{} must be set to 64 lowercase hexadecimal digits. Do not set it by hand: the Durable Object class that `koze \
             build` generates for `#[sandbox(backend = \"native\")]` starts the container, and sets it",
            token::VARIABLE
        ));
        return ExitCode::FAILURE;
    };
    let hidden = hidden.map_err(|error| ("cannot hide its memory", error));
    if beside {
        return beside::start(|ready| hidden.and_then(|()| run(token, Start::Beside(ready))));
    }
    match hidden.and_then(|()| run(token, Start::First { entrypoint, weak })) {
        Ok(()) => ExitCode::SUCCESS,
        Err((what, error)) => {
            say(&format!("{what}: {error}"));
            ExitCode::FAILURE
        }
    }
}

/// A line in the container's log.
fn say(text: &str) {
    use std::io::Write;
    // Nobody may be there to read it, which is no reason to end.
    let _ = writeln!(io::stderr(), "koze-guest: {text}");
}

type Failed = (&'static str, io::Error);

/// How the guest was started.
enum Start {
    /// As the first process of a container, with the image's own entrypoint.
    First { entrypoint: Option<Vec<OsString>>, weak: Weak },
    /// Beside another one.
    Beside(Ready),
}

fn run(token: Token, start: Start) -> Result<(), Failed> {
    let at = |what| move |error| (what, error);
    shut::signals();
    // Beside another first process nothing is given up: what that one starts for the sandbox has it all the same.
    let (mut heard, mut own) = (vec![libc::SIGCHLD], vec![token::VARIABLE, LISTEN, shut::WEAK]);
    match &start {
        Start::First { weak, .. } => {
            shut::capabilities(*weak).map_err(at("cannot give up capabilities"))?;
            heard.extend([libc::SIGTERM, libc::SIGINT]);
        }
        Start::Beside(_) => {
            heard.extend(beside::IGNORED);
            own.extend(beside::OF_THE_SHELL);
        }
    }
    // Blocked before the first thread is there, they are blocked in all.
    let signals = sys::signals(&heard).map_err(at("cannot listen to signals"))?;
    if std::process::id() != 1 {
        // Something else is the container's first process: what programs leave behind comes to the guest all the same.
        rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
            .map_err(|error| ("cannot adopt processes", error.into()))?;
    }
    let proc = std::fs::metadata("/proc/self/fd").is_ok();
    if !proc {
        say(&work::no_proc().text);
    }
    let listener = listener(matches!(start, Start::Beside(_))).map_err(at("cannot listen"))?;
    let threads = "cannot start its threads";
    let guest = Arc::new(Guest {
        token,
        environment: Environment::of_the_container(&own),
        programs: Programs::default(),
        drain: Drain::new().map_err(at(threads))?,
        pool: Pool::new().map_err(at(threads))?,
        connections: Mutex::default(),
        writer: Mutex::default(),
        proc,
    });
    // Once the port is taken: no program can take it before.
    let (ready, entrypoint) = match start {
        Start::First { entrypoint, .. } => (None, entrypoint.and_then(|argv| begin(&guest, argv))),
        Start::Beside(ready) => (Some(ready), None),
    };
    let port = listener.local_addr().map_err(at("cannot listen"))?.port();
    let ends = ready.is_none();
    let door = Arc::clone(&guest);
    std::thread::Builder::new()
        .name("door".into())
        .spawn(move || door::serve(&listener, &door))
        .map_err(at(threads))?;
    if let Some(ready) = ready {
        ready.listens(port);
    }
    first(&guest, &signals, entrypoint.as_deref(), ends).map_err(at("cannot wait for signals"))
}

/// Where it listens. `any` lets it be another port than the guest's own, where a program has that.
fn listener(any: bool) -> io::Result<TcpListener> {
    let other = std::env::var(LISTEN).ok();
    let address = other.map(|text| text.parse::<SocketAddr>()).transpose().map_err(|_| {
        let text = format!("{LISTEN} is an address and a port, such as 127.0.0.1:0");
        io::Error::new(io::ErrorKind::InvalidInput, text)
    })?;
    let listener = door::open(address, any)?;
    say(&format!("listens at {}", listener.local_addr()?));
    Ok(listener)
}

/// Starts the image's own entrypoint, where the container would have started it, with the container's own output.
fn begin(guest: &Guest, argv: Vec<OsString>) -> Option<Arc<Running>> {
    let name = argv.first().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let started = (|| {
        let text =
            |word: OsString| word.into_string().map_err(|_| io::Error::other("its arguments are not UTF-8"));
        let argv = argv.into_iter().map(text).collect::<io::Result<Vec<_>>>()?;
        let cwd = std::env::current_dir()?.into_os_string();
        let cwd = cwd
            .into_string()
            .map_err(|_| io::Error::other("the name of its working directory is not UTF-8"))?;
        let output = [rustix::stdio::stdout(), rustix::stdio::stderr()];
        let output = output
            .map(|stream| rustix::io::fcntl_dupfd_cloexec(stream, 3))
            .into_iter()
            .collect::<Result<Vec<_>, _>>()?;
        let env = guest.environment.with(Vec::new());
        let bell = Arc::new(Bell::new()?);
        let streams = Streams::output(output).map_err(|fault| io::Error::other(fault.text))?;
        guest.programs.start(&argv, &cwd, &env, streams, bell).map_err(|fault| io::Error::other(fault.text))
    })();
    match started {
        Ok(running) => Some(running),
        Err(error) => {
            say(&format!("the entrypoint {name} did not start: {error}. The sandbox continues without it"));
            None
        }
    }
}

/// What the first thread does: it reaps, and where a signal `ends` the guest, ends everything when the container is stopped.
fn first(guest: &Arc<Guest>, signals: &OwnedFd, entrypoint: Option<&Running>, ends: bool) -> io::Result<()> {
    let mut running = entrypoint;
    let mut end: Option<Instant> = None;
    loop {
        let left = end.map(|end| end.saturating_duration_since(Instant::now()));
        let timeout = left.and_then(|left| Timespec::try_from(left).ok());
        let mut ready = [PollFd::new(signals, PollFlags::IN)];
        match poll(&mut ready, timeout.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let came = sys::came(signals);
        let stop = ends && came.iter().any(|signal| signal.number != libc::SIGCHLD && signal.counts());
        guest.programs.reap();
        if let Some(code) = running.and_then(|running| running.code.get()) {
            running = None;
            if end.is_none() {
                say(&format!("the entrypoint ended with the code {code}. The sandbox continues without it"));
            }
        }
        if stop && end.is_none() {
            end = Some(Instant::now() + GRACE);
            if let Some(running) = running {
                guest.programs.ask_to_end(running);
            }
        }
        if end.is_some_and(|end| running.is_none() || Instant::now() >= end) {
            guest.programs.kill_all();
            return Ok(());
        }
    }
}
