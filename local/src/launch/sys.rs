//! The system calls of a launch that have no safe form.
#![allow(
    unsafe_code,
    reason = "a clone that keeps the parent, unshare, mount_setattr and an ioctl of an interface"
)]

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use rustix::thread::UnshareFlags;

use super::{Weakness, Weaknesses};

/// A process that was made.
#[derive(Debug)]
pub(super) struct Process {
    pub(super) descriptor: OwnedFd,
    /// As this process counts.
    pub(super) number: u32,
}

/// Makes a copy of this process, which has one thread, in namespaces of its own: the first process there. Its parent is
/// this one's parent. Gives the original the copy, and the copy nothing.
pub(super) fn clone_sibling(weak: &Weaknesses) -> io::Result<Option<Process>> {
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
    // SAFETY: without a stack of its own and without CLONE_VM the copy goes on here, on a copy of the memory, like after
    // fork; the process has one thread, so no lock is held by another. The kernel writes the descriptor where it is told.
    let pid = unsafe { libc::syscall(libc::SYS_clone, flags, 0, &raw mut descriptor, 0, 0) };
    match pid {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(None),
        number => Ok(Some(Process {
            // SAFETY: the kernel made the descriptor for us alone.
            descriptor: unsafe { OwnedFd::from_raw_fd(descriptor) },
            number: u32::try_from(number).map_err(io::Error::other)?,
        })),
    }
}

/// Gives this process, which has one thread, its own view of mounts and control groups: those that there are now.
pub(super) fn unshare_views() -> io::Result<()> {
    // SAFETY: neither flag unshares the descriptor table, which is what the function is unsafe for.
    Ok(unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNS | UnshareFlags::NEWCGROUP) }?)
}

/// `struct mount_attr`, which libc does not have.
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

/// Sets attributes of a mount, and with `all` of those below it. Linux 5.12.
pub(super) fn mount_setattr(mount: BorrowedFd<'_>, attributes: u64, all: bool) -> io::Result<()> {
    let flags = libc::AT_EMPTY_PATH | if all { libc::AT_RECURSIVE } else { 0 };
    let attr = MountAttr { set: attributes, clear: 0, propagation: 0, user_namespace: 0 };
    // SAFETY: the path is a C string, and the kernel reads as many bytes of the structure as it is told.
    let result = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_raw_fd(),
            c"".as_ptr(),
            flags,
            &raw const attr,
            size_of::<MountAttr>(),
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Brings the loopback interface up.
pub(super) fn loopback_up(socket: BorrowedFd<'_>) -> io::Result<()> {
    /// `IFF_UP` and `IFF_RUNNING`, as wide as the field.
    const UP: libc::c_short = 0x41;
    // SAFETY: an ifreq of zeros is valid; the name is shorter than its field; the kernel reads the flags from the union.
    let result = unsafe {
        let mut request: libc::ifreq = std::mem::zeroed();
        for (to, from) in request.ifr_name.iter_mut().zip(b"lo") {
            *to = from.cast_signed();
        }
        request.ifr_ifru.ifru_flags = UP;
        libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &raw const request)
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Closes every descriptor from the third on: whatever the host program had open without `O_CLOEXEC`.
pub(super) fn close_all() {
    // SAFETY: called first of all in a process that has opened nothing yet.
    unsafe { libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, 0) };
}
