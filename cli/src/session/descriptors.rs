//! What a process in the background must not keep open.
#![allow(unsafe_code, reason = "the standard library closes only what it has opened")]

/// Closes every descriptor from the third on: a lock or a pipe of the shell that the first command was typed into would
/// otherwise stay open for as long as this process lives. To be called before anything is opened.
pub(super) fn close_inherited() {
    // SAFETY: nothing in this process owns a descriptor yet.
    unsafe { libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, 0) };
}
