//! How a sandbox's first process comes to be: this program starts itself once more, and copies of the new process, which
//! has one thread and nothing open, move into namespaces of their own.

mod child;
mod groups;
mod mounts;
mod nursery;
mod proc;
mod program;
mod spec;
mod sys;
mod weakness;

use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{OnceLock, mpsc};
use std::time::Duration;

use koze_guest::channel;
use rustix::net::sockopt;

use super::cgroup::Group;
use crate::error::{Code, Error, Result};

use nursery::Nursery;
use program::GuestProgram;
pub(super) use spec::{Bind, BindKind, Program, Spec};
use spec::{Failure, Order, Report, Stage};
use sys::Process;
#[cfg_attr(
    not(feature = "testing"),
    expect(unreachable_pub, reason = "it is seen with that feature alone")
)]
pub use weakness::Weakness;
pub(super) use weakness::Weaknesses;

/// What the new process is told it is by.
const ARGUMENT: &str = "--koze-sandbox-first-process";
/// What a process is told that others are to be copied from.
const NURSERY: &str = "--koze-sandbox-nursery";
/// The user and group inside.
const USER: u32 = 1000;
/// What tells the new process, in builds with the feature `prove`, to keep open what the host program had open. That process
/// has no other variable than those it is given: one of the host program's environment does not reach it.
const KEEP: &str = "KOZE_TESTING_KEEP_DESCRIPTORS";
/// What tells a guest that something in a sandbox runs, in builds with the feature `testing`, to go on all the same.
const STAY: &str = "KOZE_TESTING_STAY";
/// How long a launch may take: it is some milliseconds.
const PATIENCE: Duration = Duration::from_secs(20);

static READY: AtomicBool = AtomicBool::new(false);

/// See [`super::init`].
pub(super) fn init() {
    child::enter();
    READY.store(true, Ordering::Release);
}

/// Whether [`init`] was called. Without it, the new process would run the program's `main`.
pub(super) fn ready() -> bool {
    READY.load(Ordering::Acquire)
}

/// A sandbox that is up.
#[derive(Debug)]
pub(super) struct Launched {
    /// The way to its guest.
    pub(super) socket: OwnedFd,
    /// Its first process, whose end is the end of all in it.
    pub(super) process: OwnedFd,
    /// A socket in its network that the kernel is asked by for the sockets there.
    pub(super) sockets: Option<OwnedFd>,
}

struct Job {
    spec: Spec,
    group: Option<Group>,
    done: tokio::sync::oneshot::Sender<Result<(Launched, Option<Group>)>>,
}

/// Starts a sandbox, in a control group if there is one.
pub(super) async fn launch(spec: Spec, group: Option<Group>) -> Result<(Launched, Option<Group>)> {
    // One thread, which never ends, starts them all: the kernel ends a sandbox with the *thread* that started it.
    static STARTER: OnceLock<mpsc::Sender<Job>> = OnceLock::new();
    let starter = STARTER.get_or_init(|| {
        let (sender, jobs) = mpsc::channel::<Job>();
        let started = std::thread::Builder::new().name("koze-starter".into()).spawn(move || {
            let mut nursery = None;
            for job in jobs {
                let launched = start(&mut nursery, job.spec, job.group.as_ref());
                // Where nobody waits any more, the descriptors are closed, and the sandbox ends.
                let _ = job.done.send(launched.map(|launched| (launched, job.group)));
            }
        });
        // Without the thread the channel is closed, which each launch then finds.
        drop(started);
        sender
    });
    let (done, launched) = tokio::sync::oneshot::channel();
    let gone = || Error::new(Code::Internal, "the thread that starts sandboxes is gone");
    starter.send(Job { spec, group, done }).map_err(|_| gone())?;
    launched.await.map_err(|_| gone())?
}

fn start(nursery: &mut Option<Nursery>, spec: Spec, group: Option<&Group>) -> Result<Launched> {
    let internal =
        |error: io::Error| Error::new(Code::Internal, format!("a sandbox cannot be started: {error}"));
    let (socket, theirs) = nursery::pair().map_err(internal)?;
    let child = child_of(nursery, &spec, theirs)?;
    let born = shake_hands(&socket, &child, spec, group);
    if born.is_err() {
        let _ = rustix::process::pidfd_send_signal(&child.descriptor, rustix::process::Signal::KILL);
    }
    super::running::reap(&child.descriptor);
    let (process, early) = born?;
    let shut = match early {
        Some(early) => Ok(early),
        None => next(&socket),
    };
    let shut = shut.and_then(|(report, sockets)| is_shut(&report).map(|()| sockets));
    // The parent of the new process is this one; where it fails from here on, somebody must wait for it.
    let sockets = match shut {
        Ok(sockets) => sockets,
        Err(error) => {
            let _ = rustix::process::pidfd_send_signal(&process, rustix::process::Signal::KILL);
            super::running::reap(&process);
            return Err(error);
        }
    };
    sockopt::set_socket_timeout(&socket, sockopt::Timeout::Recv, None)
        .map_err(|error| internal(error.into()))?;
    Ok(Launched { socket, process, sockets })
}

/// The process that is to make the first one of a sandbox: a copy of the one that waits for this.
fn child_of(nursery: &mut Option<Nursery>, spec: &Spec, theirs: OwnedFd) -> Result<Process> {
    if spec.weak.has(&Weakness::Descriptors) || spec.weak.has(&Weakness::Program) {
        return fresh(spec, theirs);
    }
    if let Some(copy) = nursery.as_ref().and_then(|known| known.copy(&theirs).ok()) {
        return Ok(copy);
    }
    // It was not started yet, or was killed.
    let known = nursery.insert(Nursery::start()?);
    known.copy(&theirs).map_err(|error| {
        let text = format!("a sandbox cannot be started: {error}: is `koze::provider::local::init()` the first line of `main`?");
        Error::new(Code::Unavailable, text)
    })
}

/// A process of its own, for tests: one with what this one has open, or that runs this one's file.
fn fresh(spec: &Spec, theirs: OwnedFd) -> Result<Process> {
    let program = GuestProgram::get()?;
    let path = if spec.weak.has(&Weakness::Program) { "/proc/self/exe".into() } else { program.path() };
    let keep = spec.weak.has(&Weakness::Descriptors).then_some((KEEP, "1"));
    let started = || -> io::Result<_> {
        let child = nursery::command(&path, ARGUMENT, theirs).envs(keep).spawn()?;
        let pid = rustix::process::Pid::from_child(&child);
        let descriptor = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty())?;
        Ok(Process { descriptor, number: child.id() })
    };
    started().map_err(|error| Error::new(Code::Internal, format!("a sandbox cannot be started: {error}")))
}

/// Up to the moment when the first process of the sandbox is there. What that says may come before it is known of: it
/// can be quicker than the process that made it.
fn shake_hands(
    socket: &OwnedFd,
    child: &Process,
    spec: Spec,
    group: Option<&Group>,
) -> Result<(OwnedFd, Option<Said>)> {
    let failed =
        |error: &io::Error| Error::new(Code::Internal, format!("a sandbox cannot be started: {error}"));
    let doors = match group {
        Some(group) => {
            group.add(child.number).and_then(|()| group.doors()).map_err(|error| failed(&error))?
        }
        None => Vec::new(),
    };
    let doors: Vec<_> = doors.iter().map(AsFd::as_fd).collect();
    let owner = spec.owner;
    let weak = spec.weak.clone();
    channel::send(socket, 0, &Order::Spec(spec), &doors).map_err(|error| failed(&error))?;
    expect(socket, |report| if matches!(report, Report::Unshared) { Ok(()) } else { Err(odd(report)) })?;
    let groups = map_users(child.number, owner, &weak).map_err(|error| {
        Error::new(
            Code::Unavailable,
            format!("the user of a sandbox cannot be set up: {error}. {USER_NAMESPACES}"),
        )
    })?;
    channel::send(socket, 0, &Order::Mapped { groups }, &[]).map_err(|error| failed(&error))?;
    let mut early: Option<Said> = None;
    loop {
        match (next(socket), early) {
            (Ok((Report::Born, Some(process))), early) => return Ok((process, early)),
            // The guest's first word comes after the report, and nobody waits for it.
            (Ok(said), None) | (Ok(_), Some(said @ (Report::Shut, _))) => early = Some(said),
            // It failed before there was another process.
            (_, Some((report, _))) => return Err(odd(&report)),
            (Err(error), None) => return Err(error),
        }
    }
}

/// The next report, which must be the right one.
fn expect(socket: &OwnedFd, right: impl Fn(&Report) -> Result<()>) -> Result<()> {
    right(&next(socket)?.0)
}

fn is_shut(report: &Report) -> Result<()> {
    if matches!(report, Report::Shut) { Ok(()) } else { Err(odd(report)) }
}

/// A report, with the descriptor that may come along.
type Said = (Report, Option<OwnedFd>);

/// The next report.
fn next(socket: &OwnedFd) -> Result<Said> {
    let received = channel::receive::<Report>(socket)
        .map_err(|error| Error::new(Code::Unavailable, format!("a sandbox did not come up: {error}")))?;
    match received {
        Some(mut received) => Ok((received.message, received.descriptors.pop())),
        None => Err(Error::new(
            Code::Unavailable,
            "a sandbox ended while it was started: is `koze::provider::local::init()` the first line of `main`?",
        )),
    }
}

/// What is wrong where a report is not the one that was to come.
fn odd(report: &Report) -> Error {
    match report {
        Report::Failed(failure) => explain(failure),
        _ => Error::new(Code::Internal, "a sandbox's start was out of step"),
    }
}

/// One user and one group inside, who on the host are the caller, or where that is root nobody. True where the process may
/// give up its other groups.
fn map_users(pid: u32, owner: Option<u32>, weak: &Weaknesses) -> io::Result<bool> {
    let (user, group) = match owner {
        Some(id) => (id, id),
        None => (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw()),
    };
    fs::write(format!("/proc/{pid}/uid_map"), format!("{USER} {user} 1\n"))?;
    if owner.is_none() {
        if !weak.has(&Weakness::Groups) && groups::map(pid, group) {
            return Ok(true);
        }
        // The kernel lets a plain user map a group only after this.
        fs::write(format!("/proc/{pid}/setgroups"), "deny")?;
    }
    fs::write(format!("/proc/{pid}/gid_map"), format!("{USER} {group} 1\n"))?;
    Ok(owner.is_some())
}

const USER_NAMESPACES: &str = "Sandboxes need user namespaces. Allow them with `sysctl kernel.unprivileged_userns_clone=1` (older Debian), \
    `sysctl kernel.apparmor_restrict_unprivileged_userns=0` or an AppArmor profile for this program (Ubuntu 23.10 and later), \
    `sysctl user.max_user_namespaces=10000`; in Docker with `--security-opt seccomp=unconfined --security-opt apparmor=unconfined`";

fn explain(failure: &Failure) -> Error {
    let error = io::Error::from_raw_os_error(failure.errno);
    let text = match (failure.stage, failure.errno) {
        (Stage::Namespaces, libc::EINVAL) => {
            "call `koze::provider::local::init()` before anything starts a thread, so not below `#[tokio::main]`".into()
        }
        (Stage::Namespaces, _) => format!("the kernel refused namespaces: {error}. {USER_NAMESPACES}"),
        (_, libc::ENOSYS) => "sandboxes need Linux 5.12 or later".to_owned(),
        (Stage::Proc, libc::EPERM) => "the kernel refused a fresh /proc, for parts of this one are covered: in Docker, start the container \
            with `--security-opt systempaths=unconfined`"
            .to_owned(),
        (Stage::Sources | Stage::Root | Stage::Pivot, libc::EPERM | libc::EACCES) => {
            format!("the kernel refused mounts in a namespace of our own: {error}. {USER_NAMESPACES}")
        }
        (stage, _) => format!("a sandbox cannot be started ({stage:?}): {error}"),
    };
    Error::new(Code::Unavailable, text)
}
