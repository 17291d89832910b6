//! Closes the file descriptors that a background process must not inherit.
#![allow(unsafe_code, reason = "the standard library closes only what it has opened")]

/// Closes every descriptor from 3 on. Otherwise a lock or pipe of the shell that ran the first command would stay open
/// as long as this process lives. Call this before anything is opened.
pub(super) fn close_inherited() {
    // SAFETY: nothing in this process owns a descriptor yet.
    unsafe { libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, 0) };
}
