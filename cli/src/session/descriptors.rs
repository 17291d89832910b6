//! Closes the file descriptors that a background process must not inherit.
#![allow(unsafe_code, reason = "the standard library closes only what it has opened")]

/// Closes every descriptor from 3 on. Otherwise a lock or pipe of the shell that ran the first command would stay open
/// as long as this process lives. Call this before anything is opened.
#[cfg(namespaces)]
pub(super) fn close_inherited() {
    // SAFETY: nothing in this process owns a descriptor yet.
    unsafe { libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, 0) };
}

/// Closes every descriptor from 3 on, as a system without a call for it lists them.
#[cfg(not(namespaces))]
pub(super) fn close_inherited() {
    let entries = std::fs::read_dir("/dev/fd").into_iter().flatten().flatten();
    let open: Vec<i32> = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    for descriptor in open.into_iter().filter(|descriptor| *descriptor > 2) {
        // SAFETY: nothing in this process owns a descriptor yet. That of the directory is closed already.
        unsafe { libc::close(descriptor) };
    }
}
