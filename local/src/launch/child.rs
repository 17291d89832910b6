//! The child process: turns a copy of the host program into the first process of a sandbox.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use koze_guest::channel::{self, Received};
use rustix::net::{AddressFamily, SocketFlags, SocketType, netlink, socket_with, sockopt};
use rustix::process::{DumpableBehavior, Resource, Rlimit, Signal};
use rustix::thread::{CapabilitySet, CapabilitySets, Gid, Uid};

use super::nursery::{self, Copy};
use super::overlay::Overlay;
use super::spec::{Failure, LeftOut, Order, Report, Spec, Stage, Task, User};
use super::visible_limits::{self, MemoryFiles};
use super::{NURSERY, Work, mounts, overlay, proc, program, sys, transparent};
use crate::cgroup::ENTER;
use crate::filter::Program;
use crate::weakness::Weakness;

/// The exit code if a program cannot be run.
const CANNOT_RUN: i32 = 126;

/// Does nothing in a process that was not launched, and does not return in one that was.
pub(super) fn enter_if_launched(work: Work) {
    if !is_nursery() {
        if program::is_running() {
            // A program in a sandbox has run `/proc/self/exe` while that was the guest.
            std::process::exit(CANNOT_RUN);
        }
        return;
    }
    if std::env::var_os(super::KEEP).is_none() {
        sys::close_all();
    }
    let served = take_stdin().and_then(|socket| run_nursery(socket, work));
    std::process::exit(i32::from(served.is_err()));
}

/// Returns whether this process is a nursery.
fn is_nursery() -> bool {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_none_or(|argument| argument != NURSERY) {
        return false;
    }
    // A user may pass this argument by hand.
    let told = sockopt::socket_type(io::stdin()).ok() == Some(SocketType::SEQPACKET);
    told && arguments.next().is_none()
}

fn run_nursery(socket: OwnedFd, work: Work) -> io::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    rustix::thread::set_name(c"koze-nursery")?;
    let copy = nursery::serve_copies(&socket)?;
    // A copy must not receive requests to its original.
    drop(socket);
    copy.map_or(Ok(()), |copy| run_child(copy, work))
}

fn run_child(Copy { socket, weak, filters }: Copy, work: Work) -> io::Result<()> {
    rustix::thread::set_name(c"koze-spare")?;
    // If the program file is not readable, the kernel has made this process non-dumpable, but its ID maps must be
    // written.
    rustix::process::set_dumpable_behavior(DumpableBehavior::Dumpable)?;
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    let Ahead { sockets, netfilter } = match prepare_ahead(&weak, &filters) {
        Ok(sockets) => sockets,
        Err(error) => return report_failure(&socket, Stage::Shut, &error),
    };
    channel::send(&socket, 0, &Report::Waiting, &[])?;
    // If no request arrives, this copy was not needed.
    let Some(Received { message: order, descriptors, .. }) = channel::receive::<Order<Spec>>(&socket)? else {
        return Ok(());
    };
    // Archives look for this name: the guest's own memory cannot be read there (`koze_guest::archive`).
    rustix::thread::set_name(c"koze-guest")?;
    if order.spec.task != Task::Guest {
        sys::use_utc();
    }
    // Before anything of the host is gone, and with the capabilities that it needs.
    let network = order.spec.is_redirected.then(|| transparent::set_up(netfilter));
    let prepared = match order.spec.task {
        Task::Network => Ok(None),
        _ => prepare_sandbox(&order, &weak, descriptors),
    };
    match prepared {
        Ok(memory) => {
            let sockets = sockets.filter(|_| order.spec.task == Task::Guest);
            let (setup, network) = transparent::describe(network);
            let of_network = network.iter().flat_map(transparent::Sockets::descriptors);
            let of_memory = memory.iter().flat_map(MemoryFiles::descriptors);
            let handed: Vec<_> = of_network.chain(of_memory).chain(&sockets).map(AsFd::as_fd).collect();
            channel::send(&socket, 0, &Report::Shut(setup), &handed)?;
            let task = order.spec.task;
            drop((network, memory, sockets, order, filters));
            work(task, socket)
        }
        Err((stage, error)) => report_failure(&socket, stage, &error),
    }
}

fn report_failure(socket: &OwnedFd, stage: Stage, error: &io::Error) -> io::Result<()> {
    let failure = Failure { stage, errno: error.raw_os_error().unwrap_or(0) };
    channel::send(socket, 0, &Report::Failed(failure), &[])
}

/// Sockets that the system call filter denies later, if the kernel supports them.
struct Ahead {
    /// Through it, the host queries the sandbox's sockets.
    sockets: Option<OwnedFd>,
    /// It sets the rules of the sandbox's network.
    netfilter: Option<OwnedFd>,
}

/// Does the setup that is the same for every sandbox.
fn prepare_ahead(weak: &LeftOut, filters: &[Program]) -> io::Result<Ahead> {
    if !weak.has(&Weakness::Network) {
        let inet = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
        sys::loopback_up(inet.as_fd())?;
    }
    if !weak.has(&Weakness::Capabilities) {
        bound_capabilities()?;
    }
    // Before the system call filter, which denies it.
    let (family, flags) = (AddressFamily::NETLINK, SocketFlags::CLOEXEC);
    let sockets = socket_with(family, SocketType::RAW, flags, Some(netlink::SOCK_DIAG)).ok();
    let netfilter = if weak.has(&Weakness::Redirection) { None } else { transparent::open_netfilter() };
    if !weak.has(&Weakness::Filter) {
        apply_filters(filters)?;
    }
    Ok(Ahead { sockets, netfilter })
}

/// The socket is standard input, which programs in the sandbox must not inherit.
fn take_stdin() -> io::Result<OwnedFd> {
    let socket = io::stdin().as_fd().try_clone_to_owned()?;
    let null = std::fs::File::open("/dev/null")?;
    rustix::stdio::dup2_stdin(&null)?;
    Ok(socket)
}

/// Opens standard streams inside the sandbox. Through descriptors of the host's mounts, programs could write to the
/// host.
fn take_null() -> io::Result<()> {
    let null = std::fs::File::options().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    Ok(rustix::stdio::dup2_stderr(&null)?)
}

/// Sets up the sandbox around this process, and locks it down. Returns the files that show its programs the memory in use, if it has any.
fn prepare_sandbox(
    Order { spec, groups }: &Order<Spec>,
    weak: &LeftOut,
    mut doors: Vec<OwnedFd>,
) -> Result<Option<MemoryFiles>, (Stage, io::Error)> {
    let at = |stage| move |error: io::Error| (stage, error);
    let opened = doors.split_off(doors.len() - spec.mapped_overlays().count().min(doors.len()));
    // First, so that the group becomes the root of the cgroup namespace.
    for door in doors {
        rustix::io::write(&door, ENTER).map_err(|error| (Stage::Group, error.into()))?;
    }
    let _ = rustix::process::setsid();
    sys::unshare_views().map_err(at(Stage::Namespaces))?;
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
    let sources = mounts::open_sources(spec, weak).map_err(at(Stage::Sources))?;
    let mut opened = opened.into_iter();
    let mut open_overlay = |overlay: &Option<Overlay>| {
        let sources = overlay.as_ref().map(|overlay| overlay::open_sources(overlay, opened.next()));
        sources.transpose().map_err(|error| (Stage::Layer, error))
    };
    let (image, overlaid) = (open_overlay(&spec.image)?, open_overlay(&spec.overlay)?);
    become_user(spec.user, *groups).map_err(at(Stage::User))?;
    match spec.task {
        Task::Script => return prepare_script(spec, weak).map(|()| None),
        Task::Database => return prepare_database(spec, weak, sources).map(|()| None),
        Task::Guest | Task::Network => {}
    }
    mounts::enter_root().map_err(at(Stage::Root))?;
    if let (Some(overlay), Some(sources)) = (&spec.image, image) {
        mounts::enter_image(overlay, &sources).map_err(at(Stage::Layer))?;
    }
    mounts::build_root(spec, sources).map_err(at(Stage::Root))?;
    let memory = MemoryFiles::open().map_err(at(Stage::Limits))?;
    if let (Some(overlay), Some(sources)) = (&spec.overlay, overlaid) {
        overlay::attach_overlay(overlay, &sources).map_err(at(Stage::Layer))?;
    }
    if !weak.has(&Weakness::Processes) {
        mounts::mount_proc().map_err(at(Stage::Proc))?;
    }
    mounts::pivot_root(spec).map_err(at(Stage::Pivot))?;
    take_null().map_err(at(Stage::Pivot))?;
    if !weak.has(&Weakness::Processes) {
        if !weak.has(&Weakness::Counters) {
            proc::bound_counters().map_err(at(Stage::Proc))?;
        }
        if !weak.has(&Weakness::Proc) {
            proc::mask_entries().map_err(at(Stage::Proc))?;
        }
        visible_limits::mount_limit_files(spec.visible_group).map_err(at(Stage::Limits))?;
    }
    drop_privileges(spec, weak).map_err(at(Stage::Shut))?;
    Ok(Some(memory))
}

/// The rest of the setup for scripts, which see nothing of the host, not even `/proc` and `/dev`.
fn prepare_script(spec: &Spec, weak: &LeftOut) -> Result<(), (Stage, io::Error)> {
    let at = |stage| move |error: io::Error| (stage, error);
    rustix::thread::set_name(c"koze-script").map_err(|error| (Stage::Root, error.into()))?;
    let memory = script_memory().map_err(at(Stage::Root))?;
    mounts::empty_root().map_err(at(Stage::Root))?;
    mounts::pivot_root(spec).map_err(at(Stage::Pivot))?;
    sys::close_streams();
    set_limit(Resource::As, memory).map_err(at(Stage::Shut))?;
    drop_privileges(spec, weak).map_err(at(Stage::Shut))
}

/// The rest of the setup for a database, which sees its files, but not even `/proc`.
fn prepare_database(spec: &Spec, weak: &LeftOut, sources: Vec<OwnedFd>) -> Result<(), (Stage, io::Error)> {
    let at = |stage| move |error: io::Error| (stage, error);
    rustix::thread::set_name(c"koze-database").map_err(|error| (Stage::Root, error.into()))?;
    let memory = script_memory().map_err(at(Stage::Root))?;
    mounts::enter_root().map_err(at(Stage::Root))?;
    mounts::build_root(spec, sources).map_err(at(Stage::Root))?;
    mounts::pivot_root(spec).map_err(at(Stage::Pivot))?;
    take_null().map_err(at(Stage::Pivot))?;
    set_limit(Resource::As, memory).map_err(at(Stage::Shut))?;
    drop_privileges(spec, weak).map_err(at(Stage::Shut))
}

/// Returns the address space for scripts and their databases in bytes: that of this process, what a script may use, and as much
/// again for its source and messages.
fn script_memory() -> io::Result<u64> {
    let text = std::fs::read_to_string("/proc/self/statm")?;
    let pages: u64 =
        text.split(' ').next().and_then(|pages| pages.parse().ok()).ok_or(io::ErrorKind::InvalidData)?;
    let page = u64::try_from(rustix::param::page_size()).map_err(io::Error::other)?;
    Ok(pages * page + 2 * koze_script::limits::MEMORY)
}

/// Switches to the user of the sandbox. Capabilities are kept, because no user ID changes from root of the namespace to another.
fn become_user(inside: User, groups: bool) -> io::Result<()> {
    if groups {
        rustix::thread::set_thread_groups(&[])?;
    }
    let (user, group) = (Uid::from_raw(inside.user), Gid::from_raw(inside.group));
    rustix::thread::set_thread_res_gid(group, group, group)?;
    Ok(rustix::thread::set_thread_res_uid(user, user, user)?)
}

/// Drops all privileges that are no longer needed.
fn drop_privileges(spec: &Spec, weak: &LeftOut) -> io::Result<()> {
    rustix::system::sethostname(spec.hostname.as_bytes())?;
    let _ = rustix::process::setsid();
    if !weak.has(&Weakness::Limits) {
        set_limits(spec)?;
    }
    if weak.has(&Weakness::Capabilities) {
        keep_capabilities()?;
    } else {
        drop_capabilities()?;
    }
    rustix::thread::set_no_new_privs(true)?;
    // These come last, because a change of user or capabilities clears both.
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    let dumpable = weak.has(&Weakness::Dumpable);
    rustix::process::set_dumpable_behavior(if dumpable {
        DumpableBehavior::Dumpable
    } else {
        DumpableBehavior::NotDumpable
    })?;
    if weak.has(&Weakness::Filter) { Ok(()) } else { apply_filters(&spec.filters) }
}

fn apply_filters(filters: &[Program]) -> io::Result<()> {
    for filter in filters {
        let filter: Vec<_> =
            filter.iter().map(|&(code, jt, jf, k)| seccompiler::sock_filter { code, jt, jf, k }).collect();
        seccompiler::apply_filter(&filter).map_err(io::Error::other)?;
    }
    Ok(())
}

fn set_limits(spec: &Spec) -> io::Result<()> {
    for (resource, most) in [
        (Resource::Nproc, spec.processes),
        (Resource::Fsize, spec.file_size),
        // A limit of 1 prevents core dumps even if the kernel passes them to a program (`core_pattern`); 0 does not.
        (Resource::Core, 1),
        (Resource::Nofile, if spec.task == Task::Guest { 4096 } else { 16 }),
        (Resource::Memlock, 8 << 20),
        // Timers and queued signals count for the host user, too.
        (Resource::Sigpending, share_of(Resource::Sigpending)),
    ] {
        set_limit(resource, most)?;
    }
    Ok(())
}

/// Returns the part of a host user's limit that one sandbox gets, also where the host has no limit.
fn share_of(resource: Resource) -> u64 {
    const MOST: u64 = 16_384;
    let host = rustix::process::getrlimit(resource).maximum;
    host.map_or(MOST, |host| (host / proc::SHARE).clamp(1, MOST))
}

/// Clears the bounding set. This process keeps its capabilities, but programs that it executes get none.
fn bound_capabilities() -> io::Result<()> {
    for number in 0..64 {
        let capability = CapabilitySet::from_bits_retain(1 << number);
        match rustix::thread::remove_capability_from_bounding_set(capability) {
            Ok(()) => {}
            // Past the last capability that this kernel has.
            Err(rustix::io::Errno::INVAL) => break,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn drop_capabilities() -> io::Result<()> {
    rustix::thread::clear_ambient_capability_set()?;
    let none = CapabilitySet::empty();
    let sets = CapabilitySets { effective: none, permitted: none, inheritable: none };
    Ok(rustix::thread::set_capabilities(None, sets)?)
}

/// Makes capabilities ambient, so that programs get them after exec too.
fn keep_capabilities() -> io::Result<()> {
    let all = rustix::thread::capabilities(None)?.permitted;
    let sets = CapabilitySets { effective: all, permitted: all, inheritable: all };
    rustix::thread::set_capabilities(None, sets)?;
    for capability in all.iter() {
        rustix::thread::configure_capability_in_ambient_set(capability, true)?;
    }
    Ok(())
}

/// Sets a limit. The host may have set a lower one, which cannot be raised.
fn set_limit(resource: Resource, most: u64) -> io::Result<()> {
    let set = rustix::process::getrlimit(resource).maximum.map_or(most, |host| host.min(most));
    Ok(rustix::process::setrlimit(resource, Rlimit { current: Some(set), maximum: Some(set) })?)
}
