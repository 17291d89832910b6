//! System calls with harmless arguments. If the kernel rejects the arguments, the filter has let the call through.
#![allow(unsafe_code, reason = "system calls by their number")]

use std::io;

/// A system call, and the protections that prevent it.
pub(crate) struct Call {
    pub(crate) name: &'static str,
    pub(crate) needs: Needs,
    number: libc::c_long,
    arguments: [libc::c_long; 5],
}

/// The privileges that a call requires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Needs {
    /// None: only the filter prevents it.
    Nothing,
    /// Capabilities in the user namespace.
    Capabilities,
    /// The host's root.
    Root,
}

const fn call(name: &'static str, needs: Needs, number: libc::c_long, arguments: [libc::c_long; 5]) -> Call {
    Call { name, needs, number, arguments }
}

const NONE: libc::c_long = -1;

/// Address zero is unmapped, and descriptor -1 is invalid.
pub(crate) const CALLS: &[Call] = &[
    call("call_ptrace", Needs::Nothing, libc::SYS_ptrace, [16, 0, 0, 0, 0]),
    call("call_process_vm_readv", Needs::Nothing, libc::SYS_process_vm_readv, [1, 0, 0, 0, 0]),
    call("call_process_vm_writev", Needs::Nothing, libc::SYS_process_vm_writev, [1, 0, 0, 0, 0]),
    call("call_process_madvise", Needs::Nothing, libc::SYS_process_madvise, [NONE, 0, 0, 0, 0]),
    call("call_pidfd_getfd", Needs::Nothing, libc::SYS_pidfd_getfd, [NONE, 0, 0, 0, 0]),
    call("call_kcmp", Needs::Nothing, libc::SYS_kcmp, [0, 0, 0, 0, 0]),
    call("call_prlimit_of_another", Needs::Nothing, libc::SYS_prlimit64, [1, 7, 0, 0, 0]),
    call("call_keyctl", Needs::Nothing, libc::SYS_keyctl, [9999, 0, 0, 0, 0]),
    call("call_add_key", Needs::Nothing, libc::SYS_add_key, [0, 0, 0, 0, 0]),
    call("call_request_key", Needs::Nothing, libc::SYS_request_key, [0, 0, 0, 0, 0]),
    call("call_userfaultfd", Needs::Nothing, libc::SYS_userfaultfd, [1, 0, 0, 0, 0]),
    call("call_perf_event_open", Needs::Nothing, libc::SYS_perf_event_open, [0, 0, 0, 0, 0]),
    call("call_io_uring_setup", Needs::Nothing, libc::SYS_io_uring_setup, [1, 0, 0, 0, 0]),
    call("call_io_uring_enter", Needs::Nothing, libc::SYS_io_uring_enter, [NONE, 0, 0, 0, 0]),
    call("call_io_uring_register", Needs::Nothing, libc::SYS_io_uring_register, [NONE, 0, 0, 0, 0]),
    call("call_clone3", Needs::Nothing, libc::SYS_clone3, [0, 0, 0, 0, 0]),
    call("call_io_setup", Needs::Nothing, libc::SYS_io_setup, [0, 0, 0, 0, 0]),
    call("call_semget", Needs::Nothing, libc::SYS_semget, [1, 0, 0, 0, 0]),
    call("call_msgget", Needs::Nothing, libc::SYS_msgget, [1, 0, 0, 0, 0]),
    call("call_mq_open", Needs::Nothing, libc::SYS_mq_open, [0, 0, 0, 0, 0]),
    call("call_statmount", Needs::Nothing, 457, [0, 0, 0, 0, 0]),
    call("call_listmount", Needs::Nothing, 458, [0, 0, 0, 0, 0]),
    call("call_setxattrat", Needs::Nothing, 463, [NONE, 0, 0, 0, 0]),
    call("call_open_tree_attr", Needs::Nothing, 467, [NONE, 0, 0, 0, 0]),
    call("call_file_setattr", Needs::Nothing, 469, [NONE, 0, 0, 0, 0]),
    call("call_setns", Needs::Nothing, libc::SYS_setns, [NONE, 0, 0, 0, 0]),
    call("call_name_to_handle_at", Needs::Nothing, libc::SYS_name_to_handle_at, [NONE, 0, 0, 0, 0]),
    call("call_open_tree", Needs::Nothing, libc::SYS_open_tree, [NONE, 0, 0, 0, 0]),
    call("call_fsconfig", Needs::Nothing, libc::SYS_fsconfig, [NONE, 0, 0, 0, 0]),
    call("call_move_mount", Needs::Capabilities, libc::SYS_move_mount, [NONE, 0, NONE, 0, 0]),
    call("call_fsopen", Needs::Capabilities, libc::SYS_fsopen, [0, 0, 0, 0, 0]),
    call("call_fsmount", Needs::Capabilities, libc::SYS_fsmount, [NONE, 0, 0, 0, 0]),
    call("call_fspick", Needs::Capabilities, libc::SYS_fspick, [NONE, 0, 0, 0, 0]),
    call("call_mount_setattr", Needs::Capabilities, libc::SYS_mount_setattr, [NONE, 0, 0, 0, 32]),
    call("call_pivot_root", Needs::Capabilities, libc::SYS_pivot_root, [0, 0, 0, 0, 0]),
    call("call_umount", Needs::Capabilities, libc::SYS_umount2, [0, 0, 0, 0, 0]),
    call("call_open_by_handle_at", Needs::Root, libc::SYS_open_by_handle_at, [NONE, 0, 0, 0, 0]),
    call("call_bpf", Needs::Root, libc::SYS_bpf, [9999, 0, 0, 0, 0]),
    call("call_syslog", Needs::Root, libc::SYS_syslog, [10, 0, 0, 0, 0]),
    call("call_reboot", Needs::Root, libc::SYS_reboot, [0, 0, 0, 0, 0]),
    call("call_swapon", Needs::Root, libc::SYS_swapon, [0, 0, 0, 0, 0]),
    call("call_swapoff", Needs::Root, libc::SYS_swapoff, [0, 0, 0, 0, 0]),
];

impl Call {
    pub(super) fn make(&self) -> io::Result<()> {
        let [first, second, third, fourth, fifth] = self.arguments;
        // SAFETY: every address among the arguments is null, so the kernel has nothing to read or write.
        if unsafe { libc::syscall(self.number, first, second, third, fourth, fifth, 0) } >= 0 {
            return Ok(());
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::EPERM | libc::EACCES | libc::ENOSYS) => Err(error),
            _ => Ok(()),
        }
    }
}
