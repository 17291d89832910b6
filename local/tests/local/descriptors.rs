//! Descriptors that a sandbox can make this program keep open.

use std::io::{BufRead as _, BufReader, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::AsFd as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::{Command as Process, ExitCode, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use koze_core::{Code, Provider, Sandbox};
use koze_local::{Internet, Local, LocalSandbox, Weakness, prove};
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::Test;
use crate::stage::{command, id, out, put_probe, settings, within};

/// The argument that makes this program run with a low descriptor limit and start programs that leave pipes open; the
/// state directory and the mode follow. A further argument leaves out the protection.
pub(crate) const FEW: &str = "--few-descriptors";
const MAX_DESCRIPTORS: u64 = 300;

/// A background process holds the pipes.
const OPEN: &str = "open";
/// The pipes are in flight, in a message that is never received.
const IN_FLIGHT: &str = "in-flight";

/// The arguments that make this program send its pipes away, and never receive messages.
pub(crate) const SEND: &str = "--send-pipes";
pub(crate) const COLLECT: &str = "--collect-pipes";
const SOCKET: &str = "/home/user/socket";
const READY: &str = "/home/user/ready";

pub(crate) const TESTS: &[Test] = &[
    ("background_pipes_are_bounded", bounded),
    ("control_background_pipes_take_all_descriptors", unbounded),
    ("pipes_in_flight_are_bounded", bounded_in_flight),
    ("control_pipes_in_flight_take_all_descriptors", unbounded_in_flight),
];

fn bounded() -> Result<(), libtest_mimic::Failed> {
    holds(OPEN)
}

fn unbounded() -> Result<(), libtest_mimic::Failed> {
    exhausts(OPEN)
}

fn bounded_in_flight() -> Result<(), libtest_mimic::Failed> {
    holds(IN_FLIGHT)
}

fn unbounded_in_flight() -> Result<(), libtest_mimic::Failed> {
    exhausts(IN_FLIGHT)
}

fn holds(how: &str) -> Result<(), libtest_mimic::Failed> {
    assert_eq!(
        leave_behind(how, &[])?,
        format!("raised to {MAX_DESCRIPTORS}\nstill here\nserved beside it\n")
    );
    Ok(())
}

fn exhausts(how: &str) -> Result<(), libtest_mimic::Failed> {
    let output = leave_behind(how, &["weak"])?;
    assert!(output.starts_with("raised to 256\nunavailable: "), "{output}");
    Ok(())
}

fn leave_behind(how: &str, weak: &[&str]) -> Result<String, libtest_mimic::Failed> {
    // The kernel counts descriptors in flight per host user, and all sandboxes of an unprivileged user share that user.
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let state = tempfile::tempdir()?;
    let mut child = Process::new(std::env::current_exe()?)
        .arg(FEW)
        .arg(state.path())
        .arg(how)
        .args(weak)
        .stdout(Stdio::piped())
        .spawn()?;
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let output = lines.map(|line| line.unwrap() + "\n").collect();
    assert!(child.wait()?.success());
    Ok(output)
}

/// See [`FEW`].
pub(crate) fn few() -> ExitCode {
    setrlimit(Resource::Nofile, Rlimit { current: Some(256), maximum: Some(MAX_DESCRIPTORS) }).unwrap();
    let arguments: Vec<_> = std::env::args().skip(2).collect();
    let local = match arguments.get(2) {
        Some(_) => prove::weakened(&arguments[0], Internet::default(), vec![Weakness::Pipes]).unwrap(),
        None => Local::new(&arguments[0]).unwrap(),
    };
    println!("raised to {}", getrlimit(Resource::Nofile).current.unwrap());
    let ran = within(async {
        let sandbox = local.open(&id("a"), &settings()).await.unwrap().sandbox;
        let beside = local.open(&id("b"), &settings()).await.unwrap().sandbox;
        let leaves = if arguments[1] == IN_FLIGHT {
            collecting(&sandbox).await
        } else {
            command(&["sh", "-c", "sleep 600 &"])
        };
        for _ in 0..MAX_DESCRIPTORS / 2 {
            match sandbox.exec(leaves.clone()).await {
                Ok(ran) => assert_eq!(ran.exit_code, 0, "{ran:?}"),
                Err(error) => {
                    assert_eq!(error.code, Code::Unavailable);
                    println!("{error}");
                    return;
                }
            }
        }
        println!("{}", out(&sandbox, "echo still here").await);
        println!("{}", out(&beside, "echo served beside it").await);
    });
    if ran.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Starts a process that never receives its messages. Returns the command that sends its pipes there.
async fn collecting(sandbox: &LocalSandbox) -> koze_core::sandbox::Command {
    put_probe(sandbox).await;
    let start = format!("./probe {COLLECT} > /dev/null 2>&1 & until [ -e {READY} ]; do sleep 0.05; done");
    out(sandbox, &start).await;
    command(&["/home/user/probe", SEND])
}

/// See [`SEND`].
pub(crate) fn send() -> ExitCode {
    let socket = UnixStream::connect(SOCKET).unwrap();
    let deadline = Instant::now() + Duration::from_secs(10);
    // Descriptors that other tests have in flight count for the same user.
    loop {
        match send_pipes(&socket) {
            Err(Errno::TOOMANYREFS) if Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(20));
            }
            sent => break sent.map_or(ExitCode::FAILURE, |_| ExitCode::SUCCESS),
        }
    }
}

fn send_pipes(socket: &UnixStream) -> Result<usize, Errno> {
    let (stdout, stderr) = (std::io::stdout(), std::io::stderr());
    let pipes = [stdout.as_fd(), stderr.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    assert!(control.push(SendAncillaryMessage::ScmRights(&pipes)));
    rustix::net::sendmsg(socket, &[IoSlice::new(b"x")], &mut control, SendFlags::empty())
}

/// See [`COLLECT`].
pub(crate) fn collect() -> ExitCode {
    let listener = UnixListener::bind(SOCKET).unwrap();
    std::fs::write(READY, "").unwrap();
    let mut all = Vec::new();
    for connection in listener.incoming() {
        all.push(connection.unwrap());
    }
    ExitCode::SUCCESS
}
