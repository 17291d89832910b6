//! Starts programs from a child that shares the guest's memory until it calls `exec`. A `fork` of the guest would take
//! longer than everything else together.
#![allow(unsafe_code, reason = "a child in this process's memory has no safe form")]

use std::ffi::{CString, OsStr, c_char, c_int, c_void};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::ptr;

use rustix::process::Pid;

/// The stack size of the child, which makes only a few system calls.
const STACK: usize = 64 << 10;

/// A program to start. Its strings contain no NUL bytes.
pub(crate) struct Program<'a, T> {
    pub(crate) argv: &'a [String],
    pub(crate) cwd: &'a str,
    pub(crate) env: &'a [(T, T)],
    /// Its standard input, output and error.
    pub(crate) streams: [BorrowedFd<'a>; 3],
    /// Whether standard input becomes the controlling terminal of its session.
    pub(crate) terminal: bool,
}

/// Everything that the child needs, because it must not allocate.
struct Plan {
    /// The candidate paths of the program, in search order.
    files: Vec<CString>,
    argv: Vec<*const c_char>,
    env: Vec<*const c_char>,
    cwd: CString,
    streams: [RawFd; 3],
    terminal: bool,
    /// The `errno` of the failure; 0 on success.
    errno: c_int,
}

/// Starts a program in its own session, with no signal blocked, as the subreaper of its descendants, so that they all
/// stay below it while it lives.
pub(crate) fn spawn_program<T: AsRef<OsStr>>(program: &Program<'_, T>) -> io::Result<Pid> {
    let argv = program.argv.iter().map(|text| CString::new(&**text)).collect::<Result<Vec<_>, _>>()?;
    let env = program.env.iter().map(|(name, value)| {
        CString::new([name.as_ref().as_bytes(), b"=", value.as_ref().as_bytes()].concat())
    });
    let env = env.collect::<Result<Vec<_>, _>>()?;
    let mut plan = Plan {
        files: find_files(program)?,
        argv: pointers_to(&argv),
        env: pointers_to(&env),
        cwd: CString::new(program.cwd)?,
        streams: program.streams.map(|stream| stream.as_raw_fd()),
        terminal: program.terminal,
        errno: 0,
    };
    let mut stack = vec![0_u128; STACK / size_of::<u128>()];
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
    // SAFETY: CLONE_VFORK suspends this thread until the child has called exec or exited. Until then the child runs on
    // its own stack. Of the shared memory it modifies only that stack, `errno` (this thread's, because thread-local
    // memory is shared) and `plan.errno`. Everything that `plan` points to lives until the end of this function. Other
    // threads, which exist in a container, continue meanwhile: the child touches nothing of theirs, takes no lock that
    // they may hold, and has copies of their descriptors, which are all close-on-exec. Its working directory,
    // descriptors and signal handlers are its own, because CLONE_FS, CLONE_FILES and CLONE_SIGHAND are not set.
    let pid = unsafe {
        let top = stack.as_mut_ptr_range().end.cast::<c_void>();
        libc::clone(child, top, flags, (&raw mut plan).cast())
    };
    if pid < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: `plan` is a local variable. The read is volatile because the compiler does not see the child's write.
    let errno = unsafe { ptr::read_volatile(&raw const plan.errno) };
    let pid = Pid::from_raw(pid).ok_or_else(|| io::Error::other("the program has no process ID"))?;
    if errno == 0 {
        return Ok(pid);
    }
    let _ = rustix::process::waitpid(Some(pid), rustix::process::WaitOptions::empty());
    Err(io::Error::from_raw_os_error(errno))
}

/// Returns the candidate paths of a program: its own path, or one in each directory of its `PATH`.
fn find_files<T: AsRef<OsStr>>(program: &Program<'_, T>) -> io::Result<Vec<CString>> {
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

/// Returns a null-terminated array of pointers to the strings.
fn pointers_to(texts: &[CString]) -> Vec<*const c_char> {
    texts.iter().map(|text| text.as_ptr()).chain([ptr::null()]).collect()
}

extern "C" fn child(plan: *mut c_void) -> c_int {
    // SAFETY: the parent is suspended, so this is the only user of the plan, which points to live, NUL-terminated
    // strings.
    unsafe {
        let plan = plan.cast::<Plan>();
        (*plan).errno = become_program(&*plan);
        libc::_exit(127)
    }
}

/// Returns only on failure.
///
/// # Safety
/// Runs in the memory of the parent: it must not allocate, lock or unwind.
unsafe fn become_program(plan: &Plan) -> c_int {
    // SAFETY: system calls only, on NUL-terminated strings and null-terminated arrays.
    unsafe {
        if libc::setsid() < 0 || libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0 {
            return last_errno();
        }
        // The guest has standard streams itself, so none of these descriptors is 0, 1 or 2.
        for (number, stream) in (0..).zip(plan.streams) {
            if libc::dup2(stream, number) < 0 {
                return last_errno();
            }
        }
        if plan.terminal && libc::ioctl(0, libc::TIOCSCTTY, 0) != 0 {
            return last_errno();
        }
        if libc::chdir(plan.cwd.as_ptr()) != 0 {
            return last_errno();
        }
        // Rust ignores SIGPIPE, and an ignored signal stays ignored after exec.
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
        let mut none = std::mem::zeroed();
        libc::sigemptyset(&raw mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, ptr::null_mut());
        let mut found = libc::ENOENT;
        for file in &plan.files {
            libc::execve(file.as_ptr(), plan.argv.as_ptr(), plan.env.as_ptr());
            match last_errno() {
                libc::ENOENT | libc::ENOTDIR => {}
                // A candidate without execute permission does not hide a later one.
                libc::EACCES => found = libc::EACCES,
                other => return other,
            }
        }
        found
    }
}

fn last_errno() -> c_int {
    // SAFETY: the address of this thread's errno.
    unsafe { *libc::__errno_location() }
}
