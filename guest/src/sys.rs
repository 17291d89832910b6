//! The few calls that the compiler cannot vouch for.
#![allow(unsafe_code, reason = "fork, signalfd and sigaction have no safe form")]

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

/// Blocks `SIGCHLD` and gives a descriptor that is readable when a child has ended.
pub(crate) fn child_signal() -> io::Result<OwnedFd> {
    signals(&[libc::SIGCHLD])
}

/// Blocks signals, for this thread and those it will start, and gives a descriptor that they are read from.
pub(crate) fn signals(all: &[libc::c_int]) -> io::Result<OwnedFd> {
    // SAFETY: the set is initialised by sigemptyset before it is read; signalfd gives a new descriptor, owned here alone.
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

/// Lets no signal stay ignored that whoever started this process had ignored, as `nohup` does: the programs that this one
/// starts would ignore it, too. That of a broken pipe is ignored by Rust itself, and each program has it back.
pub(crate) fn ignore_no_signal() {
    for signal in (1..=libc::SIGRTMAX()).filter(|signal| *signal != libc::SIGPIPE) {
        // SAFETY: reads what is done at a signal, and sets the default, which runs no code of ours.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            let read = libc::sigaction(signal, std::ptr::null(), &raw mut action);
            if read == 0 && action.sa_sigaction == libc::SIG_IGN {
                libc::signal(signal, libc::SIG_DFL);
            }
        }
    }
}

/// Runs work in a copy of this process, which then ends; gives the copy's process id.
pub(crate) fn aside(work: impl FnOnce()) -> io::Result<rustix::process::Pid> {
    // SAFETY: the guest of a local sandbox, who alone calls this, is one thread, so the copy holds no lock that another thread has, and may do anything.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            work();
            // SAFETY: ends the copy without the exit handlers of the original.
            unsafe { libc::_exit(0) }
        }
        pid => {
            rustix::process::Pid::from_raw(pid).ok_or_else(|| io::Error::other("fork returned no process"))
        }
    }
}

/// Closes every descriptor from the third on: whatever the one who started this process had open without `O_CLOEXEC`.
///
/// # Safety
/// Nothing in this process owns one of them.
pub(crate) unsafe fn close_inherited() {
    // SAFETY: the caller knows that they are nobody's.
    unsafe { libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, 0) };
}

/// Kills every process of this process namespace but this one.
pub(crate) fn kill_all() {
    // Outside a process namespace of our own this would kill the user's processes.
    if std::process::id() == 1 {
        // SAFETY: kill has no memory effects.
        unsafe { libc::kill(-1, libc::SIGKILL) };
    }
}

/// A signal that came.
pub(crate) struct Came {
    /// Which one.
    pub(crate) number: libc::c_int,
    code: libc::c_int,
    sender: u32,
}

impl Came {
    /// Whether it is from who runs the container, not from somebody in it. The kernel says that a sender outside the
    /// process namespace has the number 0; who sends with a value of its own can say anything, and is not heard.
    pub(crate) fn counts(&self) -> bool {
        std::process::id() != 1
            || self.code == libc::SI_KERNEL
            || (self.code == libc::SI_USER && self.sender == 0)
    }
}

/// The signals that have come.
pub(crate) fn came(descriptor: &OwnedFd) -> Vec<Came> {
    let mut all = Vec::new();
    let mut one = [0; size_of::<libc::signalfd_siginfo>()];
    while rustix::io::read(descriptor, &mut one).is_ok_and(|read| read == one.len()) {
        let number = |at: usize| one[at..].first_chunk().map_or(0, |bytes| i32::from_ne_bytes(*bytes));
        let offset = std::mem::offset_of!(libc::signalfd_siginfo, ssi_code);
        let sender = std::mem::offset_of!(libc::signalfd_siginfo, ssi_pid);
        let signal = number(std::mem::offset_of!(libc::signalfd_siginfo, ssi_signo));
        all.push(Came { number: signal, code: number(offset), sender: number(sender).cast_unsigned() });
    }
    all
}
