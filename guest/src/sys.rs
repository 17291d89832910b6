//! The few calls that the compiler cannot vouch for.
#![allow(unsafe_code, reason = "fork and signalfd have no safe form")]

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

/// Blocks `SIGCHLD` and gives a descriptor that is readable when a child has ended.
pub(crate) fn child_signal() -> io::Result<OwnedFd> {
    // SAFETY: the set is initialised by sigemptyset before it is read; signalfd gives a new descriptor, owned here alone.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, libc::SIGCHLD);
        if libc::sigprocmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()) != 0 {
            return Err(io::Error::last_os_error());
        }
        let descriptor = libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK);
        if descriptor < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(OwnedFd::from_raw_fd(descriptor))
    }
}

/// Runs work in a copy of this process, which then ends; gives the copy's process id.
pub(crate) fn aside(work: impl FnOnce()) -> io::Result<rustix::process::Pid> {
    // SAFETY: the guest is one thread, so the copy holds no lock that another thread has, and may do anything.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            work();
            // SAFETY: ends the copy without the exit handlers of the original.
            unsafe { libc::_exit(0) }
        }
        pid => rustix::process::Pid::from_raw(pid).ok_or_else(|| io::Error::other("fork gave no process")),
    }
}

/// Kills every process of this process namespace but this one.
pub(crate) fn kill_all() {
    // Outside a process namespace of our own this would kill the user's processes.
    if std::process::id() == 1 {
        // SAFETY: kill has no memory effects.
        unsafe { libc::kill(-1, libc::SIGKILL) };
    }
}
