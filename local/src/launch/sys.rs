//! System calls of a launch that have no safe wrapper.
#![allow(
    unsafe_code,
    reason = "a clone that keeps the parent, unshare, mount_setattr and an ioctl of an interface"
)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use rustix::thread::UnshareFlags;

use super::spec::LeftOut;
use crate::weakness::Weakness;

/// Sets the time zone of this single-threaded process to UTC, which is that of scripts everywhere. The C library reads it now:
/// later, it would look for files, and the system call filter of scripts would end the process.
pub(super) fn use_utc() {
    // SAFETY: there are no other threads, the time and the result are valid, and all zeros are a valid result.
    unsafe {
        std::env::set_var("TZ", "UTC0");
        let (epoch, mut local) = (0, std::mem::zeroed());
        libc::localtime_r(&raw const epoch, &raw mut local);
    }
}

/// A child process.
#[derive(Debug)]
pub(in super::super) struct Process {
    pub(in super::super) descriptor: OwnedFd,
    /// Its process ID as seen by this process.
    pub(in super::super) number: u32,
}

/// Forks this single-threaded process into new namespaces, as the first process there. The copy's parent is this
/// process's parent. Returns the copy in the original, and nothing in the copy.
pub(super) fn clone_sibling(weak: &LeftOut) -> io::Result<Option<Process>> {
    let mut namespaces = libc::CLONE_NEWUSER | libc::CLONE_NEWUTS;
    for (weakness, flag) in [
        (Weakness::Processes, libc::CLONE_NEWPID),
        (Weakness::Network, libc::CLONE_NEWNET),
        (Weakness::Ipc, libc::CLONE_NEWIPC),
    ] {
        if !weak.has(&weakness) {
            namespaces |= flag;
        }
    }
    let mut descriptor: libc::c_int = -1;
    let flags = namespaces | libc::CLONE_PARENT | libc::CLONE_PIDFD | libc::SIGCHLD;
    // SAFETY: without CLONE_VM and without its own stack, the copy continues here on a copy of the memory, as after
    // fork. The process is single-threaded, so no other thread holds a lock. The kernel writes the descriptor to the
    // given variable.
    let pid = unsafe { libc::syscall(libc::SYS_clone, flags, 0, &raw mut descriptor, 0, 0) };
    match pid {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(None),
        number => Ok(Some(Process {
            // SAFETY: the kernel has just created the descriptor, and nothing else owns it.
            descriptor: unsafe { OwnedFd::from_raw_fd(descriptor) },
            number: u32::try_from(number).map_err(io::Error::other)?,
        })),
    }
}

/// Moves this single-threaded process to new mount and cgroup namespaces, with the current mounts.
pub(super) fn unshare_views() -> io::Result<()> {
    // SAFETY: the function is unsafe only because of the descriptor table, which neither flag unshares.
    Ok(unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNS | UnshareFlags::NEWCGROUP) }?)
}

/// `struct mount_attr`, which libc does not define.
#[repr(C)]
struct MountAttr {
    set: u64,
    clear: u64,
    propagation: u64,
    user_namespace: u64,
}

pub(super) const READ_ONLY: u64 = 0x1;
pub(super) const NO_SUID: u64 = 0x2;
pub(super) const NO_DEV: u64 = 0x4;
pub(super) const NO_EXEC: u64 = 0x8;
/// `MOUNT_ATTR_IDMAP`.
const MAP_OWNERS: u64 = 0x0010_0000;

/// Sets the attributes of a mount, and with `all` those of mounts below it. Requires Linux 5.12.
pub(super) fn mount_setattr(mount: BorrowedFd<'_>, attributes: u64, all: bool) -> io::Result<()> {
    set_attributes(mount, &MountAttr { set: attributes, clear: 0, propagation: 0, user_namespace: 0 }, all)
}

/// Maps the owners of a mount's files to those that they are in a user namespace. Only the host's root may do that, before the
/// mount is attached.
pub(super) fn map_owners(mount: BorrowedFd<'_>, namespace: BorrowedFd<'_>) -> io::Result<()> {
    let user_namespace = u64::try_from(namespace.as_raw_fd()).map_err(io::Error::other)?;
    set_attributes(mount, &MountAttr { set: MAP_OWNERS, clear: 0, propagation: 0, user_namespace }, false)
}

fn set_attributes(mount: BorrowedFd<'_>, attr: &MountAttr, all: bool) -> io::Result<()> {
    let flags = libc::AT_EMPTY_PATH | if all { libc::AT_RECURSIVE } else { 0 };
    // SAFETY: the path is a C string, and the kernel reads the given number of bytes of the structure.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_raw_fd(),
            c"".as_ptr(),
            flags,
            std::ptr::from_ref(attr),
            size_of::<MountAttr>(),
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Brings the loopback interface up.
pub(super) fn loopback_up(socket: BorrowedFd<'_>) -> io::Result<()> {
    /// `IFF_UP` and `IFF_RUNNING`, with the width of the field.
    const UP: libc::c_short = 0x41;
    // SAFETY: a zeroed ifreq is valid, the name is shorter than its field, and the kernel reads the flags from the
    // union.
    let result = unsafe {
        let mut request: libc::ifreq = std::mem::zeroed();
        for (to, from) in request.ifr_name.iter_mut().zip(b"lo") {
            *to = libc::c_char::from_ne_bytes([*from]);
        }
        request.ifr_ifru.ifru_flags = UP;
        libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &raw const request)
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Closes the standard streams.
pub(super) fn close_streams() {
    // SAFETY: nothing in this process owns them, and what writes to them takes a failure for granted.
    unsafe { libc::syscall(libc::SYS_close_range, 0, 2, 0) };
}

/// Closes every descriptor from 3 on, which the host program may have opened without `O_CLOEXEC`.
pub(super) fn close_all() {
    // SAFETY: called first in a process that has not opened anything yet.
    unsafe { libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, 0) };
}
