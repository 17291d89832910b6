//! A process between koze and wrangler. wrangler starts others, which start others: all of them end with this one,
//! which ends with koze, however that ends.

use std::ffi::OsString;
use std::io;
use std::process::{ExitCode, ExitStatus};
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitOptions};
use tokio::process::{Child, Command};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{Instant, sleep, sleep_until};

/// How long a program that is told to end may take for it.
const GRACE: Duration = Duration::from_secs(5);

/// Starts a program under a guard of its own. It is to be waited for on the thread that calls this, which must not end
/// before.
///
/// # Errors
/// Where it cannot be started.
pub fn start(program: &std::path::Path, configure: impl FnOnce(&mut Command)) -> io::Result<Child> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["guard", &std::process::id().to_string(), "--"]).arg(program);
    configure(&mut command);
    command.spawn()
}

/// Waits for a program under its guard; told to end, it tells it so.
///
/// # Errors
/// Where the system does not say.
pub async fn wait(child: &mut Child) -> io::Result<ExitStatus> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hang_up = signal(SignalKind::hangup())?;
    // After Ctrl-C wrangler ends by itself, for it was told, too.
    let mut tell_at = None;
    loop {
        tokio::select! {
            status = child.wait() => return status,
            _ = interrupt.recv() => tell_at = tell_at.or(Some(Instant::now() + GRACE)),
            _ = terminate.recv() => tell_at = Some(Instant::now()),
            _ = hang_up.recv() => tell_at = Some(Instant::now()),
            () = at(tell_at) => {
                tell(child, Signal::TERM);
                tell_at = None;
            }
        }
    }
}

/// The guard: runs a program, and ends with its exit code, and with nothing left that it has started.
///
/// # Errors
/// Where the program cannot be started.
pub async fn run(parent: u32, program: &[OsString]) -> io::Result<ExitCode> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hang_up = signal(SignalKind::hangup())?;
    // What loses its parent becomes a child of this process, and this one is told when it loses its own.
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    rustix::process::set_parent_process_death_signal(Some(Signal::TERM))?;
    let alone = || rustix::process::getppid().map(Pid::as_raw_pid) != i32::try_from(parent).ok();
    let [name, args @ ..] = program else { return Err(io::ErrorKind::InvalidInput.into()) };
    let mut child = Command::new(name).args(args).spawn()?;
    let mut end_at = None;
    if alone() {
        tell(&child, Signal::TERM);
        end_at = Some(Instant::now() + GRACE);
    }
    let status = loop {
        tokio::select! {
            status = child.wait() => break Some(status?),
            // In a terminal, the program has heard it, too.
            _ = interrupt.recv() => {}
            Some(()) = async { tokio::select! { told = terminate.recv() => told, told = hang_up.recv() => told } } => {
                tell(&child, Signal::TERM);
                end_at = end_at.or(Some(Instant::now() + GRACE));
            }
            () = at(end_at) => break None,
        }
    };
    end_all().await;
    Ok(status.map_or(ExitCode::FAILURE, code))
}

/// The exit code of a program as a shell gives it: 128 + n after the signal n.
pub fn code(status: ExitStatus) -> ExitCode {
    use std::os::unix::process::ExitStatusExt as _;
    let code = status.code().or_else(|| Some(128 + status.signal()?)).unwrap_or(1);
    ExitCode::from(u8::try_from(code).unwrap_or(1))
}

/// Kills all children, and their children, which are this process's then, until there are none.
async fn end_all() {
    loop {
        for child in children() {
            let _ = rustix::process::kill_process(child, Signal::KILL);
        }
        match rustix::process::wait(WaitOptions::NOHANG) {
            Ok(Some(_)) => {}
            Ok(None) => sleep(Duration::from_millis(5)).await,
            Err(_) => return,
        }
    }
}

/// The children of this process.
fn children() -> Vec<Pid> {
    let ours = rustix::process::getpid().as_raw_pid().to_string();
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let is_ours = |id: &i32| {
        let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
        // Behind the name, which may hold anything: the state, then the parent.
        stat.rsplit_once(')').is_some_and(|(_, rest)| rest.split_whitespace().nth(1) == Some(&ours))
    };
    ids.filter(is_ours).filter_map(Pid::from_raw).collect()
}

fn tell(child: &Child, what: Signal) {
    if let Some(id) = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw) {
        let _ = rustix::process::kill_process(id, what);
    }
}

/// At that time; never, where there is none.
async fn at(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => std::future::pending().await,
    }
}
