//! System calls without a safe wrapper.
#![allow(unsafe_code, reason = "fork, signalfd and sigaction have no safe form")]

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

/// Blocks `SIGCHLD`. Returns a descriptor that is readable when a child has exited.
pub(crate) fn child_signal() -> io::Result<OwnedFd> {
    block_signals(&[libc::SIGCHLD])
}

/// Blocks signals in this thread and in those it starts. Returns a descriptor to read them from.
pub(crate) fn block_signals(all: &[libc::c_int]) -> io::Result<OwnedFd> {
    // SAFETY: sigemptyset initializes the set before it is read; signalfd returns a new descriptor that is owned only
    // here.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        for signal in all {
            libc::sigaddset(&raw mut set, *signal);
        }
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

/// Resets ignored signals to their default. The process that started this one may ignore signals, as `nohup` does, and
/// programs would inherit that. Rust itself ignores SIGPIPE; each program resets it.
pub(crate) fn ignore_no_signal() {
    for signal in (1..=libc::SIGRTMAX()).filter(|signal| *signal != libc::SIGPIPE) {
        // SAFETY: this reads a disposition and restores the default one, which runs no code of ours.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            let read = libc::sigaction(signal, std::ptr::null(), &raw mut action);
            if read == 0 && action.sa_sigaction == libc::SIG_IGN {
                libc::signal(signal, libc::SIG_DFL);
            }
        }
    }
}

/// Runs a closure in a forked copy of this process, which then exits. Returns the copy's process ID.
pub(crate) fn fork_aside(work: impl FnOnce()) -> io::Result<rustix::process::Pid> {
    // SAFETY: the only caller is the guest of a local sandbox, which is single-threaded. So no other thread can hold a
    // lock in the copy.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            work();
            // SAFETY: this exits the copy without running exit handlers.
            unsafe { libc::_exit(0) }
        }
        pid => {
            rustix::process::Pid::from_raw(pid).ok_or_else(|| io::Error::other("fork returned no process"))
        }
    }
}

/// Closes every descriptor from 3 on, which this process may have inherited without `O_CLOEXEC`.
///
/// # Safety
/// Nothing in this process owns any of them.
pub(crate) unsafe fn close_inherited() {
    // SAFETY: the caller guarantees that nothing owns them.
    unsafe { libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, 0) };
}

/// Kills every other process of this PID namespace.
pub(crate) fn kill_all() {
    // Outside its own PID namespace this would kill the user's processes.
    if std::process::id() == 1 {
        // SAFETY: kill has no memory effects.
        unsafe { libc::kill(-1, libc::SIGKILL) };
    }
}

/// A received signal.
pub(crate) struct ReceivedSignal {
    /// Its number.
    pub(crate) number: libc::c_int,
    code: libc::c_int,
    sender: u32,
}

impl ReceivedSignal {
    /// Returns whether the signal comes from the container runtime, not from a process in the container. The kernel
    /// reports process ID 0 for a sender outside the PID namespace. `sigqueue` can forge any value, so such signals do
    /// not count.
    pub(crate) fn is_from_outside(&self) -> bool {
        std::process::id() != 1
            || self.code == libc::SI_KERNEL
            || (self.code == libc::SI_USER && self.sender == 0)
    }
}

/// Reads the received signals.
pub(crate) fn received_signals(descriptor: &OwnedFd) -> Vec<ReceivedSignal> {
    let mut all = Vec::new();
    let mut one = [0; size_of::<libc::signalfd_siginfo>()];
    while rustix::io::read(descriptor, &mut one).is_ok_and(|read| read == one.len()) {
        let number = |at: usize| one[at..].first_chunk().map_or(0, |bytes| i32::from_ne_bytes(*bytes));
        let offset = std::mem::offset_of!(libc::signalfd_siginfo, ssi_code);
        let sender = std::mem::offset_of!(libc::signalfd_siginfo, ssi_pid);
        let signal = number(std::mem::offset_of!(libc::signalfd_siginfo, ssi_signo));
        all.push(ReceivedSignal {
            number: signal,
            code: number(offset),
            sender: number(sender).cast_unsigned(),
        });
    }
    all
}
