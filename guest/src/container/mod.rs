//! The guest of a container. The Durable Object connects to it over TCP; every other client is rejected.
//!
//! Of the image it needs at most `/proc`, `/dev/null` and `/etc/passwd`: no shell and no library. Its threads:
//!
//! - the first thread reaps processes and handles the signals that stop the container;
//! - one thread holds the connections that have not authenticated yet (`accept`);
//! - one thread drains the output of background programs (`drain`), and one reads that of processes (`process`);
//! - the others serve one connection or work on one call each (`pool`). Everything that takes long runs there. A call that is a
//!   connection of a program has a second one (`tunnel`).
//!
//! In a container that a host runs through a container engine, the host holds the guest's standard input and output, and they
//! are the only connection (`wire`): there is no port, no network and no token.
//!
//! In the container of Cloudflare's Sandbox SDK another program is the first process, and the guest runs next to it
//! (`beside`): as the first process of its own PID namespace where the container allows that.
//!
//! A program starts in a child that shares the memory of this process until it calls `exec`; `spawn` explains why that
//! is sound with several threads. The guest itself is never forked for a program. All its descriptors are
//! close-on-exec.

mod accept;
mod beside;
mod budget;
mod call;
mod connection;
mod drain;
mod edit;
mod environment;
mod exec;
mod guest;
mod harden;
mod link;
mod log;
mod memory;
mod pool;
mod process;
mod programs;
mod staging;
pub mod streams;
pub mod table;
mod token;
mod tunnel;
mod wakeup;
mod wire;
mod work;

pub use crate::{frame, request};

use std::ffi::OsString;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use self::beside::{Failed, Ready};
use self::drain::Drain;
use self::environment::Environment;
use self::guest::{Guest, no_proc};
use self::harden::Weak;
use self::log::say;
use self::memory::Kills;
use self::pool::Pool;
use self::process::Processes;
use self::programs::{Programs, Running};
use self::token::Token;
use self::tunnel::Listeners;
use self::wakeup::Wakeup;
use self::wire::Stdio;
use crate::process::Streams;
use crate::sys;

/// The environment variable that overrides the address to listen on, such as `127.0.0.1:0`.
const LISTEN: &str = "KOZE_GUEST_LISTEN";
/// The time that the image's own entrypoint has to exit when the container is stopped.
const GRACE: Duration = Duration::from_secs(5);

const USAGE: &str = "\
usage: koze-guest [-- PROGRAM ARGUMENT...]
       koze-guest --stdio
       koze-guest --beside
       koze-guest --version

The first process of a sandbox's container. The container's Durable Object connects to it.
PROGRAM is the image's own entrypoint, which runs next to the guest.
With --stdio, it serves the program that started it over standard input and output, and exits with them.
With --beside, the container has another first process: the guest runs in the background. It prints its port and process ID.
";

/// Runs `koze-guest`.
pub fn main() -> ExitCode {
    let weak = Weak::from_environment();
    let hidden = harden::hide_memory(weak);
    // SAFETY: this is the only thread, it holds no pointer into the environment, and it has opened no descriptor.
    #[allow(unsafe_code, reason = "explained above")]
    let token = unsafe {
        sys::close_inherited();
        Token::take(weak)
    };
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    let (mut beside, mut stdio) = (false, false);
    let entrypoint = match arguments.split_first() {
        None => None,
        Some((first, [])) if first == "--beside" => {
            beside = true;
            None
        }
        Some((first, [])) if first == "--stdio" => {
            stdio = true;
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
    let hidden = hidden.map_err(|error| ("cannot hide its memory", error));
    if stdio {
        return exit_code(hidden.and_then(|()| run_guest(Start::Stdio(weak))));
    }
    let Some(token) = token else {
        say(&format!(
            "{} must be set to 64 lowercase hexadecimal digits. Do not set it by hand: the Durable Object class that `koze \
             build` generates for `#[sandbox(backend = \"native\")]` starts the container, and sets it",
            token::VARIABLE
        ));
        return ExitCode::FAILURE;
    };
    if beside {
        return beside::start_in_background(|ready| {
            hidden.and_then(|()| run_guest(Start::Beside { token, ready }))
        });
    }
    exit_code(hidden.and_then(|()| run_guest(Start::First { token, entrypoint, weak })))
}

/// Reports why the guest ended.
fn exit_code(ended: Result<(), Failed>) -> ExitCode {
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err((what, error)) => {
            say(&format!("{what}: {error}"));
            ExitCode::FAILURE
        }
    }
}

/// How the guest was started.
enum Start {
    /// As the first process of a container, with the image's own entrypoint.
    First { token: Token, entrypoint: Option<Vec<OsString>>, weak: Weak },
    /// In the background, next to another first process.
    Beside { token: Token, ready: Ready },
    /// As the first process of a container, for the host that holds its standard input and output.
    Stdio(Weak),
}

fn run_guest(start: Start) -> Result<(), Failed> {
    let at = |what| move |error| (what, error);
    harden::ignore_signals();
    // Next to another first process the guest keeps its capabilities: programs that the other process starts in the
    // sandbox have them anyway.
    let (mut heard, mut own) = (vec![libc::SIGCHLD], vec![token::VARIABLE, LISTEN, harden::WEAK]);
    match &start {
        Start::First { weak, .. } | Start::Stdio(weak) => {
            harden::drop_capabilities(*weak).map_err(at("cannot give up capabilities"))?;
            heard.extend([libc::SIGTERM, libc::SIGINT]);
        }
        Start::Beside { .. } => {
            heard.extend(beside::IGNORED);
            own.extend(beside::OF_THE_SHELL);
        }
    }
    // Threads inherit the signal mask, so the signals are blocked before the first thread starts.
    let signals = sys::block_signals(&heard).map_err(at("cannot listen to signals"))?;
    if std::process::id() != 1 {
        // Another program is the container's first process. Orphaned processes are reparented to the guest all the
        // same.
        rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
            .map_err(|error| ("cannot adopt processes", error.into()))?;
    }
    let proc = std::fs::metadata("/proc/self/fd").is_ok();
    if !proc {
        say(&no_proc().text);
    }
    let threads = "cannot start its threads";
    let start_guest = || {
        environment::create_user_data();
        Ok(Arc::new(Guest {
            environment: Environment::of_the_container(&own),
            programs: Programs::default(),
            processes: Processes::new().map_err(at(threads))?,
            drain: Drain::new().map_err(at(threads))?,
            kills: Kills::open(),
            pool: Pool::new().map_err(at(threads))?,
            connections: Mutex::default(),
            writer: Mutex::default(),
            listeners: Listeners::default(),
            proc,
        }))
    };
    // The port is bound first, so that no program can take it.
    let bind = |any| open_listener(any).map_err(at("cannot listen"));
    let (guest, entrypoint, ends) = match start {
        Start::First { token, entrypoint, .. } => {
            let listener = bind(false)?;
            let guest = start_guest()?;
            let entrypoint = entrypoint.and_then(|argv| start_entrypoint(&guest, argv));
            start_accepting(listener, token, &guest).map_err(at(threads))?;
            (guest, entrypoint, true)
        }
        Start::Beside { token, ready } => {
            let listener = bind(true)?;
            let port = listener.local_addr().map_err(at("cannot listen"))?.port();
            let guest = start_guest()?;
            start_accepting(listener, token, &guest).map_err(at(threads))?;
            ready.listens(port);
            (guest, None, false)
        }
        Start::Stdio(_) => {
            let stdio = Stdio::take().map_err(at("cannot take over its standard input and output"))?;
            let guest = start_guest()?;
            let serving = Arc::clone(&guest);
            std::thread::Builder::new()
                .name("stdio".into())
                .spawn(move || accept::serve_stdio(stdio, &serving))
                .map_err(at(threads))?;
            (guest, None, true)
        }
    };
    reap_until_stopped(&guest, &signals, entrypoint.as_deref(), ends).map_err(at("cannot wait for signals"))
}

/// Accepts connections in a thread.
fn start_accepting(listener: TcpListener, token: Token, guest: &Arc<Guest>) -> io::Result<()> {
    let guest = Arc::clone(guest);
    let accept = move || accept::accept_connections(&listener, &token, &guest);
    std::thread::Builder::new().name("accept".into()).spawn(accept).map(drop)
}

/// Opens the listening socket. With `any` the guest falls back to a free port if its own is in use.
fn open_listener(any: bool) -> io::Result<TcpListener> {
    let other = std::env::var(LISTEN).ok();
    let address = other.map(|text| text.parse::<SocketAddr>()).transpose().map_err(|_| {
        let text = format!("{LISTEN} is an address and a port, such as 127.0.0.1:0");
        io::Error::new(io::ErrorKind::InvalidInput, text)
    })?;
    let listener = accept::open_listener(address, any)?;
    say(&format!("listens at {}", listener.local_addr()?));
    Ok(listener)
}

/// Starts the image's own entrypoint in the container's working directory, with the container's standard output and
/// error.
fn start_entrypoint(guest: &Guest, argv: Vec<OsString>) -> Option<Arc<Running>> {
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
        let wakeup = Arc::new(Wakeup::new()?);
        let streams = Streams::output(output).map_err(|fault| io::Error::other(fault.text))?;
        guest.programs.start(&argv, &cwd, &env, streams, wakeup).map_err(|fault| io::Error::other(fault.text))
    })();
    match started {
        Ok(running) => Some(running),
        Err(error) => {
            say(&format!("the entrypoint {name} did not start: {error}. The sandbox continues without it"));
            None
        }
    }
}

/// Runs the first thread: reaps processes and, if `ends` is set, stops everything once a signal stops the container.
fn reap_until_stopped(
    guest: &Arc<Guest>,
    signals: &OwnedFd,
    entrypoint: Option<&Running>,
    ends: bool,
) -> io::Result<()> {
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
        let came = sys::received_signals(signals);
        let stop =
            ends && came.iter().any(|signal| signal.number != libc::SIGCHLD && signal.is_from_outside());
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
