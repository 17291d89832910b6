//! The filters of koze's own helper processes, which run the text of agents: they allow only a few calls.

use std::sync::OnceLock;

use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpOp, SeccompFilter, SeccompRule, TargetArch,
};

use koze_core::error::Result;

use super::{Program, Rules, compare_argument, to_programs};

/// The calls of a process that runs scripts: memory, its socket and the clock. All others kill it.
const SCRIPT: &[i64] = &[
    libc::SYS_brk,
    libc::SYS_mmap,
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_madvise,
    libc::SYS_mprotect,
    libc::SYS_sendto,
    libc::SYS_recvfrom,
    libc::SYS_sendmsg,
    libc::SYS_recvmsg,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_poll,
    libc::SYS_ppoll,
    libc::SYS_close,
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_getrandom,
    libc::SYS_futex,
    libc::SYS_sigaltstack,
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_restart_syscall,
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_tgkill,
    libc::SYS_exit,
    libc::SYS_exit_group,
];

/// What a process of a database calls beside that: its files.
const DATABASE: &[i64] = &[
    #[cfg(target_arch = "x86_64")]
    libc::SYS_open,
    libc::SYS_openat,
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_pread64,
    libc::SYS_pwrite64,
    libc::SYS_lseek,
    libc::SYS_fstat,
    libc::SYS_newfstatat,
    libc::SYS_statx,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_stat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_lstat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_access,
    libc::SYS_faccessat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_readlink,
    libc::SYS_readlinkat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_unlink,
    libc::SYS_unlinkat,
    libc::SYS_getcwd,
    libc::SYS_fcntl,
    libc::SYS_ftruncate,
    libc::SYS_fsync,
    libc::SYS_fdatasync,
    libc::SYS_fchmod,
    libc::SYS_geteuid,
    libc::SYS_getuid,
];

/// The filter of a process that runs scripts.
pub(crate) fn script_filter() -> Result<Vec<Program>> {
    static MADE: OnceLock<Result<Vec<Program>>> = OnceLock::new();
    let make = || {
        let mut rules = engine_rules()?;
        // A debug build checks that descriptors are open before it closes them.
        let look = compare_argument(1, SeccompCmpOp::Eq, libc::F_GETFD.cast_unsigned().into())?;
        rules.insert(libc::SYS_fcntl, vec![SeccompRule::new(vec![look])?]);
        Ok(vec![allow_only(rules, SeccompAction::KillProcess)?])
    };
    MADE.get_or_init(|| to_programs(make())).clone()
}

/// The filter of a process that runs the statements of a database. Other calls fail, and do not kill: which ones the C library
/// makes for a file differs, and it has another way.
pub(crate) fn database_filter() -> Result<Vec<Program>> {
    static MADE: OnceLock<Result<Vec<Program>>> = OnceLock::new();
    let make = || {
        let mut rules = engine_rules()?;
        rules.extend(DATABASE.iter().map(|call| (*call, Vec::new())));
        Ok(vec![allow_only(rules, SeccompAction::Errno(libc::ENOSYS.cast_unsigned()))?])
    };
    MADE.get_or_init(|| to_programs(make())).clone()
}

/// Allows the calls of an engine.
fn engine_rules() -> std::result::Result<Rules, BackendError> {
    let mut rules: Rules = SCRIPT.iter().map(|call| (*call, Vec::new())).collect();
    // No memory becomes code.
    let data = compare_argument(2, SeccompCmpOp::MaskedEq(libc::PROT_EXEC.cast_unsigned().into()), 0)?;
    for call in [libc::SYS_mmap, libc::SYS_mprotect] {
        rules.insert(call, vec![SeccompRule::new(vec![data.clone()])?]);
    }
    Ok(rules)
}

/// Creates a filter that allows only these calls.
fn allow_only(rules: Rules, others: SeccompAction) -> std::result::Result<BpfProgram, BackendError> {
    let architecture = TargetArch::try_from(std::env::consts::ARCH)?;
    SeccompFilter::new(rules, others, SeccompAction::Allow, architecture)?.try_into()
}
