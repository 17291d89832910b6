//! Starts the first process of a sandbox: this program starts itself again as a nursery. The nursery is
//! single-threaded, has nothing open, and forks copies that move into their own namespaces.

mod check;
mod child;
mod groups;
mod mounts;
mod nursery;
mod overlay;
mod proc;
mod program;
mod spec;
mod sys;
mod targets;
mod transparent;
mod visible_limits;

use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{OnceLock, mpsc};
use std::time::Duration;

use koze_guest::channel;
use rustix::net::sockopt;
use rustix::process::{WaitId, WaitIdOptions};

use crate::cgroup::Group;
use crate::weakness::{Weakness, Weaknesses};
use koze_core::error::{Code, Error, Result};

pub use check::{Network, check_network};
pub(super) use groups::groups_in_sandbox;
use nursery::{Missing, Nursery, Waiting};
pub(super) use overlay::Overlay;
use program::GuestProgram;
pub(super) use spec::{Bind, BindKind, Spec, Task, User};
use spec::{Failure, Order, Report, Stage};
pub(super) use sys::Process;
pub(super) use transparent::Sockets;
pub(super) use visible_limits::{Limits, MemoryFiles, VisibleGroup, limit_files};

/// The argument that makes a process a nursery.
const NURSERY: &str = "--koze-sandbox-nursery";
/// The user and group inside, if the sandbox has no image. They own the files of snapshots.
pub(super) const USER: u32 = 1000;
/// The same.
pub(super) const PLAIN_USER: User = User { user: USER, group: USER };
/// Tells the child process to keep the host program's descriptors open. The child has only the variables that it is
/// given, so a variable of the host program does not reach it.
const KEEP: &str = "KOZE_TESTING_KEEP_DESCRIPTORS";
/// The timeout of a launch, which usually takes a few milliseconds.
const TIMEOUT: Duration = Duration::from_secs(20);

/// How long after a launch the next copy is prepared, so that the sandbox's first program gets the processors first.
const PAUSE: Duration = Duration::from_millis(5);

static READY: AtomicBool = AtomicBool::new(false);

/// The work of the first process of a sandbox, which it does once it is locked down.
pub(super) type Work = fn(Task, OwnedFd) -> io::Result<()>;

/// See [`super::init`].
pub(super) fn init(work: Work) {
    child::enter_if_launched(work);
    READY.store(true, Ordering::Release);
}

/// Whether [`init`] was called. Without it, the child process would run the program's `main`.
pub(super) fn is_ready() -> bool {
    READY.load(Ordering::Acquire)
}

/// A launched sandbox.
#[derive(Debug)]
pub(super) struct Launched {
    /// The socket to its guest.
    pub(super) socket: OwnedFd,
    /// Its first process. When it exits, all others are killed.
    pub(super) process: Process,
    /// The files that show its programs the memory in use.
    pub(super) memory: Option<MemoryFiles>,
    /// A socket in its network that reports its sockets.
    pub(super) sockets: Option<OwnedFd>,
    /// The sockets of its network, if its connections are redirected, or why the kernel refused that.
    pub(super) network: io::Result<Option<Sockets>>,
}

struct Job {
    spec: Spec,
    group: Option<Group>,
    done: tokio::sync::oneshot::Sender<Result<(Launched, Option<Group>)>>,
}

/// Launches a sandbox, in a control group if there is one.
pub(super) async fn launch_sandbox(spec: Spec, group: Option<Group>) -> Result<(Launched, Option<Group>)> {
    // One permanent thread starts them all, because the kernel kills a sandbox with the *thread* that started it.
    static STARTER: OnceLock<mpsc::Sender<Job>> = OnceLock::new();
    let starter = STARTER.get_or_init(|| {
        let (sender, jobs) = mpsc::channel::<Job>();
        let started = std::thread::Builder::new().name("koze-starter".into()).spawn(move || {
            let mut nursery = None;
            let mut next = jobs.recv().ok();
            while let Some(job) = next {
                let launched = start_first(&mut nursery, &job.spec, job.group.as_ref());
                // If the caller is gone, the descriptors are closed, and the sandbox ends.
                let _ = job.done.send(launched.map(|launched| (launched, job.group)));
                next = match (jobs.recv_timeout(PAUSE), &mut nursery) {
                    (Err(mpsc::RecvTimeoutError::Timeout), Some(nursery)) => {
                        nursery.prepare();
                        jobs.recv().ok()
                    }
                    (Err(mpsc::RecvTimeoutError::Timeout), None) => jobs.recv().ok(),
                    (job, _) => job.ok(),
                };
            }
        });
        // If the thread cannot be started, the channel is closed, and each launch fails.
        drop(started);
        sender
    });
    let (done, launched) = tokio::sync::oneshot::channel();
    let gone = || Error::new(Code::Internal, "the thread that starts sandboxes is gone");
    starter.send(Job { spec, group, done }).map_err(|_| gone())?;
    launched.await.map_err(|_| gone())?
}

fn start_first(nursery: &mut Option<Nursery>, spec: &Spec, group: Option<&Group>) -> Result<Launched> {
    // The prepared copy may have been killed. If the machine is the cause, the next copy fails too.
    if spec.weak.are_none()
        && let Some(spare) = nursery.as_mut().and_then(Nursery::spare)
        && let Ok(launched) = launch_first(nursery, spare, spec, group)
    {
        return Ok(launched);
    }
    let copy = copy_from_nursery(nursery, &spec.weak)?;
    launch_first(nursery, copy, spec, group)
}

fn launch_first(
    nursery: &mut Option<Nursery>,
    first: Waiting,
    spec: &Spec,
    group: Option<&Group>,
) -> Result<Launched> {
    match furnish_first(nursery, &first, spec, group) {
        Ok(Passed { network, memory, sockets }) => {
            Ok(Launched { socket: first.socket, process: first.process, memory, sockets, network })
        }
        Err(error) => {
            first.end();
            Err(error)
        }
    }
}

/// Returns a process for the sandbox: a copy from the nursery.
fn copy_from_nursery(nursery: &mut Option<Nursery>, weak: &Weaknesses) -> Result<Waiting> {
    if [Weakness::Descriptors, Weakness::Program, Weakness::Rerun].iter().any(|one| weak.has(one)) {
        return copy_from_new_nursery(weak);
    }
    match nursery.as_ref().map(|known| known.copy(weak)) {
        Some(Ok(copy)) => return Ok(copy),
        Some(Err(refused @ Missing::Refused(_))) => return Err(no_copy(refused)),
        // The nursery was not started yet, or was killed.
        Some(Err(Missing::Gone(_))) | None => {}
    }
    let started =
        Nursery::start(&GuestProgram::get()?.path(), &Weaknesses::default()).map_err(launch_error)?;
    nursery.insert(started).copy(weak).map_err(no_copy)
}

/// Returns a copy from a separate nursery, for tests: one that inherits this process's descriptors, or runs another
/// program.
fn copy_from_new_nursery(weak: &Weaknesses) -> Result<Waiting> {
    let program = if weak.has(&Weakness::Rerun) { GuestProgram::unnamed()? } else { GuestProgram::get()? };
    let path = if weak.has(&Weakness::Program) { "/proc/self/exe".into() } else { program.path() };
    let nursery = Nursery::start(&path, weak).map_err(launch_error)?;
    nursery.copy(weak).map_err(no_copy)
}

fn no_copy(missing: Missing) -> Error {
    match missing {
        Missing::Refused(errno) => explain_failure(&Failure { stage: Stage::Namespaces, errno }),
        Missing::Gone(error) => {
            let text = format!(
                "a sandbox cannot be started: {error}: is `koze_local::init()` the first line of `main`?"
            );
            Error::new(Code::Unavailable, text).with_source(error)
        }
    }
}

/// What the first process passes back.
struct Passed {
    network: io::Result<Option<Sockets>>,
    memory: Option<MemoryFiles>,
    sockets: Option<OwnedFd>,
}

/// Lets the first process set up its sandbox.
fn furnish_first(
    nursery: &mut Option<Nursery>,
    first: &Waiting,
    spec: &Spec,
    group: Option<&Group>,
) -> Result<Passed> {
    let Waiting { socket, process } = first;
    receive_report(socket, |report| matches!(report, Report::Waiting).then_some(()))?;
    let doors = match group {
        Some(group) => group.add(process.number).and_then(|()| group.doors()).map_err(launch_error)?,
        None => Vec::new(),
    };
    // This process does it: if it is root, no program can undo it.
    if !spec.weak.has(&Weakness::Limits) {
        let file = format!("/proc/{}/oom_score_adj", process.number);
        fs::write(file, "1000").map_err(launch_error)?;
    }
    let groups = map_users(process.number, spec.user, spec).map_err(|error| {
        let text = format!("the user of a sandbox cannot be set up: {error}. {USER_NAMESPACES}");
        Error::new(Code::Unavailable, text).with_source(error)
    })?;
    let opened = spec.mapped_overlays().map(|overlay| open_mapped(nursery, overlay, spec, process.number));
    let opened = opened.collect::<Result<Vec<_>>>()?;
    let passed: Vec<_> = doors.iter().chain(&opened).map(AsFd::as_fd).collect();
    channel::send(socket, 0, &Order { spec, groups }, &passed).map_err(launch_error)?;
    let (setup, passed) = receive_report(socket, |report| match report {
        Report::Shut(setup) => Some(*setup),
        _ => None,
    })?;
    let mut passed = passed.into_iter();
    sockopt::set_socket_timeout(socket, sockopt::Timeout::Recv, None)
        .map_err(|error| launch_error(error.into()))?;
    let network = Sockets::take(setup, &mut passed);
    Ok(Passed { network, memory: MemoryFiles::take(&mut passed), sockets: passed.next() })
}

/// Reaps an exited process.
pub(super) fn reap_process(process: &OwnedFd) {
    let _ = rustix::process::waitid(WaitId::PidFd(process.as_fd()), WaitIdOptions::EXITED);
}

fn launch_error(error: io::Error) -> Error {
    Error::new(Code::Internal, format!("a sandbox cannot be started: {error}")).with_source(error)
}

/// Receives the next report, from which `read` takes what is expected, and its descriptors.
fn receive_report<T>(socket: &OwnedFd, read: impl Fn(&Report) -> Option<T>) -> Result<(T, Vec<OwnedFd>)> {
    let received = channel::receive::<Report>(socket).map_err(|error| {
        Error::new(Code::Unavailable, format!("a sandbox did not start: {error}")).with_source(error)
    })?;
    let Some(received) = received else {
        let text = "a sandbox ended while it was started: is `koze_local::init()` the first line of `main`?";
        return Err(Error::new(Code::Unavailable, text));
    };
    match read(&received.message) {
        Some(expected) => Ok((expected, received.descriptors)),
        None => Err(unexpected_report(&received.message)),
    }
}

/// Returns the error for an unexpected report.
fn unexpected_report(report: &Report) -> Error {
    match report {
        Report::Failed(failure) => explain_failure(failure),
        _ => Error::new(Code::Internal, "the messages of a sandbox's start came in the wrong order"),
    }
}

/// Maps one user and one group. On the host, they are the caller, or an unprivileged user if the caller is root.
/// Returns whether the process may drop its supplementary groups.
fn map_users(pid: u32, inside: User, spec: &Spec) -> io::Result<bool> {
    let (user, group) = match spec.owner {
        Some(id) => (id, id),
        None => (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw()),
    };
    fs::write(format!("/proc/{pid}/uid_map"), format!("{} {user} 1\n", inside.user))?;
    if spec.owner.is_none() {
        if !spec.weak.has(&Weakness::Groups) && groups::write_group_map(pid, inside.group, group) {
            return Ok(true);
        }
        // The kernel requires this before an unprivileged user may map a group.
        fs::write(format!("/proc/{pid}/setgroups"), "deny")?;
    }
    fs::write(format!("/proc/{pid}/gid_map"), format!("{} {group} 1\n", inside.group))?;
    Ok(spec.owner.is_some())
}

/// Opens the layers of an overlay, so that the sandbox's user owns their files.
fn open_mapped(
    nursery: &mut Option<Nursery>,
    overlay: &Overlay,
    spec: &Spec,
    process: u32,
) -> Result<OwnedFd> {
    let owner = User { user: overlay.layers_owner, group: overlay.layers_owner };
    let open = |process: u32| {
        let namespace = fs::File::open(format!("/proc/{process}/ns/user"))?;
        overlay::open_mapped(overlay, namespace.as_fd())
    };
    if spec.user == owner {
        return open(process).map_err(|error| refused_layer(&error));
    }
    // Inside, the user is another one than in the layers. A process that waits and never starts lends its user namespace.
    let lender = copy_from_nursery(nursery, &Weaknesses::default())?;
    let waiting = |report: &Report| matches!(report, Report::Waiting).then_some(());
    let opened = receive_report(&lender.socket, waiting).and_then(|_| {
        map_users(lender.process.number, owner, spec).map_err(|error| refused_layer(&error))?;
        open(lender.process.number).map_err(|error| refused_layer(&error))
    });
    lender.end();
    opened
}

const USER_NAMESPACES: &str = "Sandboxes need user namespaces. Allow them with `sysctl \
    kernel.unprivileged_userns_clone=1` (older Debian), \
    `sysctl kernel.apparmor_restrict_unprivileged_userns=0` or an AppArmor profile for this program (Ubuntu 23.10 and later), \
    `sysctl user.max_user_namespaces=10000`; in Docker with `--security-opt seccomp=unconfined --security-opt \
        apparmor=unconfined`";

/// The source of the error if this kernel or file system does not allow a sandbox on top of a layer.
#[derive(Debug, thiserror::Error)]
#[error("overlayfs was refused")]
struct LayerRefused(#[source] io::Error);

/// Returns whether a sandbox did not start because the kernel or file system does not allow overlays.
pub(super) fn is_layer_refused(error: &Error) -> bool {
    std::error::Error::source(error).is_some_and(<dyn std::error::Error>::is::<LayerRefused>)
}

fn refused_layer(error: &io::Error) -> Error {
    let message = format!(
        "the kernel refused an overlay for the sandbox, whose files are those of a snapshot and its own changes: {error}. It needs a \
         kernel with overlayfs in user namespaces, and a state directory that is not itself on overlayfs or a network file system"
    );
    let cause =
        LayerRefused(error.raw_os_error().map_or_else(|| error.kind().into(), io::Error::from_raw_os_error));
    Error::new(Code::Unavailable, message).with_source(cause)
}

fn explain_failure(failure: &Failure) -> Error {
    let error = io::Error::from_raw_os_error(failure.errno);
    if failure.stage == Stage::Layer {
        return refused_layer(&error);
    }
    let text = match (failure.stage, failure.errno) {
        (Stage::Namespaces, libc::EINVAL) => {
            "call `koze_local::init()` before any thread is started, so not inside `#[tokio::main]`".into()
        }
        (Stage::Namespaces, _) => format!("the kernel refused namespaces: {error}. {USER_NAMESPACES}"),
        (_, libc::ENOSYS) => "sandboxes need Linux 5.12 or later".to_owned(),
        (Stage::Proc, libc::EPERM) => "the kernel refused a new /proc because parts of the current one are \
            masked: in Docker, start the container with `--security-opt systempaths=unconfined`"
            .to_owned(),
        (Stage::Sources | Stage::Root | Stage::Pivot, libc::EPERM | libc::EACCES) => {
            format!("the kernel refused mounts in a new namespace: {error}. {USER_NAMESPACES}")
        }
        (stage, _) => format!("a sandbox cannot be started ({stage:?}): {error}"),
    };
    Error::new(Code::Unavailable, text).with_source(error)
}
