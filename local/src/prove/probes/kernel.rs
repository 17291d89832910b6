//! Requests to the kernel.
#![allow(unsafe_code, reason = "system calls that have no safe form")]

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;

use super::Target;

fn done(result: libc::c_long) -> io::Result<()> {
    if result >= 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// Mounts an empty file system on `/mnt`, which disappears with the sandbox.
pub(super) fn mount(_: &Target) -> io::Result<()> {
    use rustix::mount::{MountFlags, mount};
    Ok(mount("tmpfs", "/mnt/user-data", "tmpfs", MountFlags::empty(), None)?)
}

pub(super) fn remount(_: &Target) -> io::Result<()> {
    Ok(rustix::mount::mount_remount("/usr", rustix::mount::MountFlags::BIND, "")?)
}

pub(super) fn unshare_user(_: &Target) -> io::Result<()> {
    // SAFETY: this program is single-threaded, and continues only to print the result.
    done(unsafe { libc::unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNS) }.into())
}

pub(super) fn clone_user(_: &Target) -> io::Result<()> {
    let flags = libc::CLONE_NEWUSER | libc::CLONE_NEWNET | libc::SIGCHLD;
    // SAFETY: without CLONE_VM and without its own stack, the copy continues here, and exits at once.
    let pid = unsafe { libc::syscall(libc::SYS_clone, flags, 0, 0, 0, 0) };
    if pid == 0 {
        // SAFETY: exits the copy.
        unsafe { libc::_exit(0) }
    }
    done(pid)
}

pub(super) fn join(_: &Target) -> io::Result<()> {
    let own = File::open("/proc/self/ns/uts")?;
    // SAFETY: the descriptor is open.
    done(unsafe { libc::setns(own.as_raw_fd(), libc::CLONE_NEWUTS) }.into())
}

pub(super) fn chroot(_: &Target) -> io::Result<()> {
    Ok(rustix::process::chroot("/tmp")?)
}

pub(super) fn host_name(_: &Target) -> io::Result<()> {
    Ok(rustix::system::sethostname(b"taken")?)
}

/// Requests an empty adjustment of the clock, which requires the privilege to adjust it.
pub(super) fn time(_: &Target) -> io::Result<()> {
    // SAFETY: zeros are a valid timex; the kernel reads and writes it.
    let state = unsafe {
        let mut nothing: libc::timex = std::mem::zeroed();
        nothing.modes = libc::ADJ_OFFSET_SINGLESHOT;
        libc::adjtimex(&raw mut nothing)
    };
    done(state.into())
}

/// Injects a character as terminal input.
pub(super) fn terminal(_: &Target) -> io::Result<()> {
    let _ = rustix::process::setsid();
    let ours = OpenOptions::new().read(true).write(true).open("/dev/ptmx")?;
    let unlocked: libc::c_int = 0;
    // SAFETY: the first request takes a signal, the second reads a number, the next two take one, the last reads a
    // character.
    unsafe {
        // The state of the terminal afterward does not matter.
        libc::signal(libc::SIGHUP, libc::SIG_IGN);
        done(libc::ioctl(ours.as_raw_fd(), libc::TIOCSPTLCK, &raw const unlocked).into())?;
        let theirs = libc::ioctl(ours.as_raw_fd(), libc::TIOCGPTPEER, libc::O_RDWR | libc::O_NOCTTY);
        done(theirs.into())?;
        libc::ioctl(theirs, libc::TIOCSCTTY, 0);
        done(libc::ioctl(theirs, libc::TIOCSTI, c"x".as_ptr()).into())
    }
}

pub(super) fn shared_memory(target: &Target) -> io::Result<()> {
    // SAFETY: looks up a segment without mapping it.
    done(unsafe { libc::shmget(target.memory, 1, 0o400) }.into())
}

/// Calls `getpid` by its x32 number. If the copy of this program is not killed, the call got through.
#[cfg(target_arch = "x86_64")]
pub(super) fn x32(_: &Target) -> io::Result<()> {
    // SAFETY: the copy makes only system calls.
    let pid = unsafe { libc::fork() };
    if pid == 0 {
        // SAFETY: the call may be unknown to the kernel; the copy exits either way.
        unsafe {
            libc::syscall(0x4000_0000 + libc::SYS_getpid);
            libc::_exit(0)
        }
    }
    let mut status = 0;
    // SAFETY: waits for the copy, whose status is written to a valid variable.
    done(unsafe { libc::waitpid(pid, &raw mut status, 0) }.into())?;
    if libc::WIFEXITED(status) { Ok(()) } else { Err(super::nothing("it was killed for it")) }
}
