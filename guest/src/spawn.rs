//! How a program starts: from a child that shares the guest's memory until it is another program. A copy of the guest
//! would take longer than the whole rest.
#![allow(unsafe_code, reason = "a child in this process's memory has no safe form")]

use std::ffi::{CString, OsStr, c_char, c_int, c_void};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::ptr;

use rustix::process::Pid;

/// The stack of a child, which makes a few calls of the kernel.
const STACK: usize = 64 << 10;

/// A program that is ready to start. None of its texts holds a NUL byte.
pub(crate) struct Program<'a, T> {
    pub(crate) argv: &'a [String],
    pub(crate) cwd: &'a str,
    pub(crate) env: &'a [(T, T)],
    /// What it has as standard input, output and error.
    pub(crate) streams: [BorrowedFd<'a>; 3],
    /// Whether standard input is a terminal that is to control its session.
    pub(crate) terminal: bool,
}

/// All that the child needs: it may allocate nothing.
struct Plan {
    /// Where the program may lie, in the order in which it is looked for.
    files: Vec<CString>,
    argv: Vec<*const c_char>,
    env: Vec<*const c_char>,
    cwd: CString,
    streams: [RawFd; 3],
    terminal: bool,
    /// Why it did not start; 0 where it did.
    errno: c_int,
}

/// Starts it: in a session of its own, with no signal blocked, and adopting what its children leave behind, so that all
/// that came of it is below it while it lives.
pub(crate) fn spawn<T: AsRef<OsStr>>(program: &Program<'_, T>) -> io::Result<Pid> {
    let argv = program.argv.iter().map(|text| CString::new(&**text)).collect::<Result<Vec<_>, _>>()?;
    let env = program.env.iter().map(|(name, value)| {
        CString::new([name.as_ref().as_bytes(), b"=", value.as_ref().as_bytes()].concat())
    });
    let env = env.collect::<Result<Vec<_>, _>>()?;
    let mut plan = Plan {
        files: files(program)?,
        argv: pointers(&argv),
        env: pointers(&env),
        cwd: CString::new(program.cwd)?,
        streams: program.streams.map(|stream| stream.as_raw_fd()),
        terminal: program.terminal,
        errno: 0,
    };
    let mut stack = vec![0_u128; STACK / size_of::<u128>()];
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
    // SAFETY: with CLONE_VFORK this thread waits until the child has another program's memory or has ended. Until then the
    // child runs on a stack of its own, and of this memory changes that stack, `errno` (this thread's, as the kernel gives
    // it the same thread-local memory) and `plan.errno` alone. All that `plan` points to lives until the end of this
    // function. Other threads, in a container, go on meanwhile: the child touches nothing that they do, takes no lock that
    // one of them may hold, and has copies of their descriptors, all of which close with exec; its directory, descriptors
    // and signal handlers are its own from the start, for neither CLONE_FS, CLONE_FILES nor CLONE_SIGHAND is given.
    let pid = unsafe {
        let top = stack.as_mut_ptr_range().end.cast::<c_void>();
        libc::clone(child, top, flags, (&raw mut plan).cast())
    };
    if pid < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: `plan` is this function's own; read thus because the compiler has not seen the child write it.
    let errno = unsafe { ptr::read_volatile(&raw const plan.errno) };
    let pid = Pid::from_raw(pid).ok_or_else(|| io::Error::other("the program has no process ID"))?;
    if errno == 0 {
        return Ok(pid);
    }
    let _ = rustix::process::waitpid(Some(pid), rustix::process::WaitOptions::empty());
    Err(io::Error::from_raw_os_error(errno))
}

/// Where a program may lie: at its own path, or in one of the directories on its `PATH`.
fn files<T: AsRef<OsStr>>(program: &Program<'_, T>) -> io::Result<Vec<CString>> {
    let name = &*program.argv[0];
    if name.contains('/') {
        return Ok(vec![CString::new(name)?]);
    }
    let path = program.env.iter().rev().find(|(name, _)| name.as_ref() == "PATH");
    let path = path.map_or(&b""[..], |(_, path)| path.as_ref().as_bytes());
    path.split(|byte| *byte == b':')
        .map(|directory| {
            let directory = if directory.is_empty() { b"." } else { directory };
            Ok(CString::new([directory, b"/", name.as_bytes()].concat())?)
        })
        .collect()
}

/// Texts as the kernel takes them, with an end.
fn pointers(texts: &[CString]) -> Vec<*const c_char> {
    texts.iter().map(|text| text.as_ptr()).chain([ptr::null()]).collect()
}

extern "C" fn child(plan: *mut c_void) -> c_int {
    // SAFETY: the parent waits, so this is the only user of the plan; it points to living texts that end in NUL.
    unsafe {
        let plan = plan.cast::<Plan>();
        (*plan).errno = become_program(&*plan);
        libc::_exit(127)
    }
}

/// Comes back only where it fails.
///
/// # Safety
/// Runs in the memory of the parent: no allocation, no lock, nothing that unwinds.
unsafe fn become_program(plan: &Plan) -> c_int {
    // SAFETY: calls of the kernel alone, on texts that end in NUL and lists that end in a null pointer.
    unsafe {
        if libc::setsid() < 0 || libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0 {
            return errno();
        }
        // The guest has standard streams itself, so none of these is one of the three numbers.
        for (number, stream) in (0..).zip(plan.streams) {
            if libc::dup2(stream, number) < 0 {
                return errno();
            }
        }
        if plan.terminal && libc::ioctl(0, libc::TIOCSCTTY, 0) != 0 {
            return errno();
        }
        if libc::chdir(plan.cwd.as_ptr()) != 0 {
            return errno();
        }
        // Rust ignores the signal of a broken pipe; what is ignored stays so in another program.
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
        let mut none = std::mem::zeroed();
        libc::sigemptyset(&raw mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, ptr::null_mut());
        let mut found = libc::ENOENT;
        for file in &plan.files {
            libc::execve(file.as_ptr(), plan.argv.as_ptr(), plan.env.as_ptr());
            match errno() {
                libc::ENOENT | libc::ENOTDIR => {}
                // One that may not be run hides no other further on.
                libc::EACCES => found = libc::EACCES,
                other => return other,
            }
        }
        found
    }
}

fn errno() -> c_int {
    // SAFETY: the address of the thread's own errno.
    unsafe { *libc::__errno_location() }
}
