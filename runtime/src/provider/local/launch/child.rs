//! The new process: from a copy of the host program to the first process of a sandbox.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use koze_guest::channel;
use rustix::net::{AddressFamily, SocketFlags, SocketType, netlink, socket_with, sockopt};
use rustix::process::{DumpableBehavior, Resource, Rlimit, Signal};
use rustix::thread::{CapabilitySet, CapabilitySets, Gid, Uid};

use super::super::cgroup::ENTER;
use super::spec::{Failure, Order, Report, Spec, Stage};
use super::{ARGUMENT, NURSERY, USER, Weakness, mounts, nursery, proc, program, sys};

/// The exit code of a program that cannot be run.
const CANNOT_RUN: i32 = 126;

/// Does nothing in a process that was not launched, and does not return in one that was.
pub(super) fn enter() {
    let Some(role) = role() else {
        let stays = cfg!(feature = "testing") && std::env::var_os(super::STAY).is_some();
        if program::is_running() && !stays {
            // Something in a sandbox has run `/proc/self/exe` while that was the guest.
            std::process::exit(CANNOT_RUN);
        }
        return;
    };
    if !(cfg!(feature = "prove") && std::env::var_os(super::KEEP).is_some()) {
        sys::close_all();
    }
    let served = match role {
        Role::Sandbox => take_stdin().and_then(run),
        Role::Nursery => take_stdin().and_then(nurse),
    };
    std::process::exit(i32::from(served.is_err()));
}

/// What a process was started for.
enum Role {
    Sandbox,
    Nursery,
}

fn role() -> Option<Role> {
    let mut arguments = std::env::args_os().skip(1);
    let role = match arguments.next()?.to_str()? {
        ARGUMENT => Role::Sandbox,
        NURSERY => Role::Nursery,
        _ => return None,
    };
    // A person may well type the argument.
    let told = sockopt::socket_type(io::stdin()).ok() == Some(SocketType::SEQPACKET);
    (told && arguments.next().is_none()).then_some(role)
}

fn nurse(socket: OwnedFd) -> io::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    rustix::thread::set_name(c"koze-nursery")?;
    let copy = nursery::serve(&socket)?;
    // A copy must not hear what is asked of the one it was made from.
    drop(socket);
    copy.map_or(Ok(()), run)
}

fn run(socket: OwnedFd) -> io::Result<()> {
    rustix::thread::set_name(c"koze-guest")?;
    // The program may not be read, and so the kernel has shut this process, whose maps of users are to be written.
    rustix::process::set_dumpable_behavior(DumpableBehavior::Dumpable)?;
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    match prepare(&socket) {
        Ok(Some(First { sockets })) => {
            let handed: Vec<_> = sockets.iter().map(AsFd::as_fd).collect();
            channel::send(&socket, 0, &Report::Shut, &handed)?;
            drop(sockets);
            koze_guest::serve(socket)
        }
        Ok(None) => Ok(()),
        Err((stage, error)) => {
            let failure = Failure { stage, errno: error.raw_os_error().unwrap_or(0) };
            channel::send(&socket, 0, &Report::Failed(failure), &[])
        }
    }
}

/// The socket is standard input; programs of the sandbox must not get it as theirs.
fn take_stdin() -> io::Result<OwnedFd> {
    let socket = io::stdin().as_fd().try_clone_to_owned()?;
    let null = std::fs::File::open("/dev/null")?;
    rustix::stdio::dup2_stdin(&null)?;
    Ok(socket)
}

/// Standard streams that lie in the sandbox, like all that is open from here on: those of the host's mounts could be
/// written to.
fn take_null() -> io::Result<()> {
    let null = std::fs::File::options().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    Ok(rustix::stdio::dup2_stderr(&null)?)
}

/// The first process of a sandbox, once all is built and shut.
struct First {
    /// What the host asks the kernel by for the sandbox's sockets, where there is such a thing.
    sockets: Option<OwnedFd>,
}

/// Nothing in the process that made the first one.
fn prepare(socket: &OwnedFd) -> Result<Option<First>, (Stage, io::Error)> {
    let at = |stage| move |error: io::Error| (stage, error);
    let (Order::Spec(spec), doors) = order(socket).map_err(at(Stage::Talk))? else { return Err(nonsense()) };
    // While this is still root, if it is: then no program can take it back.
    if !spec.weak.has(&Weakness::Limits) {
        std::fs::write("/proc/self/oom_score_adj", "1000").map_err(at(Stage::Shut))?;
    }
    // First of all, so that the group is the root of the namespace.
    for door in doors {
        rustix::io::write(&door, ENTER).map_err(|error| (Stage::Group, error.into()))?;
    }
    let _ = rustix::process::setsid();
    sys::unshare(&spec.weak).map_err(at(Stage::Namespaces))?;
    channel::send(socket, 0, &Report::Unshared, &[]).map_err(at(Stage::Talk))?;
    let (Order::Mapped { groups }, _) = order(socket).map_err(at(Stage::Talk))? else {
        return Err(nonsense());
    };
    if let Some(born) = sys::clone_sibling().map_err(at(Stage::Clone))? {
        channel::send(socket, 0, &Report::Born, &[born.descriptor.as_fd()]).map_err(at(Stage::Talk))?;
        return Ok(None);
    }
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o022));
    let sources = mounts::sources(&spec).map_err(at(Stage::Sources))?;
    become_user(groups).map_err(at(Stage::User))?;
    mounts::root(&spec, sources).map_err(at(Stage::Root))?;
    if !spec.weak.has(&Weakness::Processes) {
        mounts::processes().map_err(at(Stage::Proc))?;
    }
    mounts::pivot().map_err(at(Stage::Pivot))?;
    take_null().map_err(at(Stage::Pivot))?;
    if !spec.weak.has(&Weakness::Processes) {
        if !spec.weak.has(&Weakness::Counters) {
            proc::bound_counters().map_err(at(Stage::Proc))?;
        }
        if !spec.weak.has(&Weakness::Proc) {
            proc::mask().map_err(at(Stage::Proc))?;
        }
    }
    // Before the filter of system calls, which may forbid it.
    let (family, flags) = (AddressFamily::NETLINK, SocketFlags::CLOEXEC);
    let sockets = socket_with(family, SocketType::RAW, flags, Some(netlink::SOCK_DIAG)).ok();
    shut(&spec).map_err(at(Stage::Shut))?;
    Ok(Some(First { sockets }))
}

/// The next order, with the descriptors that came along.
fn order(socket: &OwnedFd) -> io::Result<(Order, Vec<OwnedFd>)> {
    let received = channel::receive(socket)?.ok_or(io::ErrorKind::UnexpectedEof)?;
    Ok((received.message, received.descriptors))
}

fn nonsense() -> (Stage, io::Error) {
    (Stage::Talk, io::ErrorKind::InvalidData.into())
}

/// From whoever this was on the host to the user of the sandbox. Capabilities stay: the namespace has no root user.
fn become_user(groups: bool) -> io::Result<()> {
    if groups {
        rustix::thread::set_thread_groups(&[])?;
    }
    let (user, group) = (Uid::from_raw(USER), Gid::from_raw(USER));
    rustix::thread::set_thread_res_gid(group, group, group)?;
    Ok(rustix::thread::set_thread_res_uid(user, user, user)?)
}

/// Gives up all that is not needed from here on.
fn shut(spec: &Spec) -> io::Result<()> {
    if !spec.weak.has(&Weakness::Network) {
        let inet = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
        sys::loopback_up(inet.as_fd())?;
    }
    rustix::system::sethostname(spec.hostname.as_bytes())?;
    let _ = rustix::process::setsid();
    if !spec.weak.has(&Weakness::Limits) {
        limits(spec)?;
    }
    if spec.weak.has(&Weakness::Capabilities) {
        keep_capabilities()?;
    } else {
        drop_capabilities()?;
    }
    rustix::thread::set_no_new_privs(true)?;
    // A change of user or capabilities clears both of these: they come last.
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    let dumpable = spec.weak.has(&Weakness::Dumpable);
    rustix::process::set_dumpable_behavior(if dumpable {
        DumpableBehavior::Dumpable
    } else {
        DumpableBehavior::NotDumpable
    })?;
    let filters = if spec.weak.has(&Weakness::Filter) { &[] } else { &spec.filters[..] };
    for filter in filters {
        let filter: Vec<_> =
            filter.iter().map(|&(code, jt, jf, k)| seccompiler::sock_filter { code, jt, jf, k }).collect();
        seccompiler::apply_filter(&filter).map_err(io::Error::other)?;
    }
    Ok(())
}

fn limits(spec: &Spec) -> io::Result<()> {
    for (resource, most) in [
        (Resource::Nproc, spec.processes),
        (Resource::Fsize, spec.file_size),
        // 1 means none, also where the kernel would hand it to a program (`core_pattern`); 0 does not.
        (Resource::Core, 1),
        (Resource::Nofile, 4096),
        (Resource::Memlock, 8 << 20),
    ] {
        limit(resource, most)?;
    }
    Ok(())
}

fn drop_capabilities() -> io::Result<()> {
    for number in 0..64 {
        let capability = CapabilitySet::from_bits_retain(1 << number);
        match rustix::thread::remove_capability_from_bounding_set(capability) {
            Ok(()) => {}
            // Beyond the last one this kernel knows.
            Err(rustix::io::Errno::INVAL) => break,
            Err(error) => return Err(error.into()),
        }
    }
    rustix::thread::clear_ambient_capability_set()?;
    let none = CapabilitySet::empty();
    let sets = CapabilitySets { effective: none, permitted: none, inheritable: none };
    Ok(rustix::thread::set_capabilities(None, sets)?)
}

/// Programs get them, too: those that are ambient survive exec.
fn keep_capabilities() -> io::Result<()> {
    let all = rustix::thread::capabilities(None)?.permitted;
    let sets = CapabilitySets { effective: all, permitted: all, inheritable: all };
    rustix::thread::set_capabilities(None, sets)?;
    for capability in all.iter() {
        rustix::thread::configure_capability_in_ambient_set(capability, true)?;
    }
    Ok(())
}

/// A host may have set a lower limit, which cannot be raised.
fn limit(resource: Resource, most: u64) -> io::Result<()> {
    let set = rustix::process::getrlimit(resource).maximum.map_or(most, |host| host.min(most));
    Ok(rustix::process::setrlimit(resource, Rlimit { current: Some(set), maximum: Some(set) })?)
}
