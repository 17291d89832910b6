//! A process between koze and wrangler that kills all descendants of wrangler when wrangler ends, and wrangler when
//! koze ends for any reason.

use std::ffi::OsString;
use std::io;
use std::process::{ExitCode, ExitStatus};
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitOptions};
use tokio::process::{Child, Command};
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{Instant, sleep, sleep_until};

use crate::platform;

/// The time between SIGTERM and SIGKILL.
const GRACE: Duration = Duration::from_secs(5);

/// Starts a program under its own guard process.
///
/// Wait for the child on the calling thread and keep that thread alive: the guard watches for its end.
///
/// # Errors
/// Returns an error if the guard cannot be started.
pub fn start(program: &std::path::Path, configure: impl FnOnce(&mut Command)) -> io::Result<Child> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["guard", &std::process::id().to_string(), "--"]).arg(program);
    configure(&mut command);
    command.spawn()
}

/// Waits for a guarded program, and passes SIGTERM on to it.
///
/// # Errors
/// Returns an error if waiting fails.
pub async fn wait(child: &mut Child) -> io::Result<ExitStatus> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hang_up = signal(SignalKind::hangup())?;
    // Ctrl-C reaches wrangler, too, so give it time to exit on its own.
    let mut tell_at = None;
    loop {
        tokio::select! {
            status = child.wait() => return status,
            _ = interrupt.recv() => tell_at = tell_at.or(Some(Instant::now() + GRACE)),
            _ = terminate.recv() => tell_at = Some(Instant::now()),
            _ = hang_up.recv() => tell_at = Some(Instant::now()),
            () = wait_until(tell_at) => {
                send_signal(child, Signal::TERM);
                tell_at = None;
            }
        }
    }
}

/// Runs a program as its guard, kills all its descendants when it ends, and returns its exit code.
///
/// # Errors
/// Returns an error if the program cannot be started.
pub async fn run(parent: u32, program: &[OsString]) -> io::Result<ExitCode> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hang_up = signal(SignalKind::hangup())?;
    // Orphaned descendants become children of this process, and the kernel signals it when its own parent ends.
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    rustix::process::set_parent_process_death_signal(Some(Signal::TERM))?;
    let alone = || rustix::process::getppid().map(Pid::as_raw_pid) != i32::try_from(parent).ok();
    let [name, args @ ..] = program else { return Err(io::ErrorKind::InvalidInput.into()) };
    let mut child = Command::new(name).args(args).spawn()?;
    let mut end_at = None;
    if alone() {
        send_signal(&child, Signal::TERM);
        end_at = Some(Instant::now() + GRACE);
    }
    let status = loop {
        tokio::select! {
            status = child.wait() => break Some(status?),
            // In a terminal, the program has received it, too.
            _ = interrupt.recv() => {}
            Some(()) = async { tokio::select! { told = terminate.recv() => told, told = hang_up.recv() => told } } => {
                send_signal(&child, Signal::TERM);
                end_at = end_at.or(Some(Instant::now() + GRACE));
            }
            () = wait_until(end_at) => break None,
        }
    };
    end_all().await;
    Ok(status.map_or(ExitCode::FAILURE, platform::to_exit_code))
}

/// Kills all children, and the orphans that they leave to this process, until none remain.
async fn end_all() {
    loop {
        for child in child_pids() {
            let _ = rustix::process::kill_process(child, Signal::KILL);
        }
        match rustix::process::wait(WaitOptions::NOHANG) {
            Ok(Some(_)) => {}
            Ok(None) => sleep(Duration::from_millis(5)).await,
            Err(_) => return,
        }
    }
}

/// Returns the children of this process.
fn child_pids() -> Vec<Pid> {
    let ours = rustix::process::getpid().as_raw_pid().to_string();
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let is_ours = |id: &i32| {
        let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
        // The name may contain anything, so parse after its closing parenthesis: the state, then the parent.
        stat.rsplit_once(')').is_some_and(|(_, rest)| rest.split_whitespace().nth(1) == Some(&ours))
    };
    ids.filter(is_ours).filter_map(Pid::from_raw).collect()
}

fn send_signal(child: &Child, what: Signal) {
    if let Some(id) = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw) {
        let _ = rustix::process::kill_process(id, what);
    }
}

/// Waits until a point in time, or forever without one.
async fn wait_until(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => std::future::pending().await,
    }
}
