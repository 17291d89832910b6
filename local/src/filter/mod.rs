//! The system call filters: they block calls that programs in a sandbox do not need, and that have enabled escapes
//! before. Helper processes of koze itself have narrower ones: see `engine`.

pub(super) mod engine;

use std::collections::BTreeMap;
use std::sync::OnceLock;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch,
};

use koze_core::error::{Code, Error, Result};

/// A system call filter as BPF instructions.
pub(super) type Program = Vec<(u16, u8, u8, u32)>;

/// Calls that are denied with any arguments once the sandbox is set up: mounts, which a user namespace would allow.
const REFUSED_LAST: &[i64] = &[
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_mount_setattr,
];

/// Calls that are denied with any arguments, and not needed for the setup either.
const REFUSED: &[i64] = &[
    // Other ways to mount.
    libc::SYS_chroot,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_setns,
    libc::SYS_name_to_handle_at,
    libc::SYS_open_by_handle_at,
    libc::SYS_fanotify_init,
    // Other processes' memory and descriptors.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    // Keyrings are not namespaced.
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    // Large and frequently vulnerable parts of the kernel.
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_memfd_secret,
    // The machine itself.
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_syslog,
    libc::SYS_vhangup,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_iopl,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_ioperm,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_modify_ldt,
];

/// Calls that are reported as missing, so that programs fall back to others. The flags of `clone3` are in memory, which a
/// filter cannot read. `io_setup` consumes a machine-wide limit (`fs.aio-max-nr`). System V semaphores and message queues
/// hold kernel memory that no limit counts and that outlives every program; POSIX queues count against the host user.
const MISSING: &[i64] = &[
    libc::SYS_clone3,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_io_setup,
    libc::SYS_semget,
    libc::SYS_msgget,
    libc::SYS_mq_open,
];

/// Calls that change the owner of a file.
const CHANGE_OWNER: &[i64] = &[
    #[cfg(target_arch = "x86_64")]
    libc::SYS_chown,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_lchown,
    libc::SYS_fchown,
    libc::SYS_fchownat,
];

/// The first number of newer calls, which is the same on every architecture. Nobody has checked what calls yet to come
/// can do, so those that are not in [`NEWER_ALLOWED`] are reported as missing. Among them are `statmount`, `listmount` and
/// `open_tree_attr`, which describe and change mounts, and `setxattrat` and `file_setattr`.
const NEWER: u32 = 457;
/// `mseal`: only protects memory of the program itself.
const NEWER_ALLOWED: u32 = 462;

/// `ioctl` requests that allocate disk space without writing: `FS_IOC_RESVSP`, its 64-bit form, `FS_IOC_ZERO_RANGE`,
/// and those of XFS, `XFS_IOC_ALLOCSP` and its 64-bit form.
const ALLOCATING: &[u64] = &[0x4030_5828, 0x4030_582a, 0x4030_5839, 0x4030_580a, 0x4030_5824];
/// `FS_IOC_FSSETXATTR`: sets how much XFS preallocates, and which project's quota a file counts against.
const FS_SET_XATTR: u64 = 0x401c_5820;

const NAMESPACES: &[libc::c_int] = &[
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWNS,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWNET,
    libc::CLONE_NEWCGROUP,
];
/// `CLONE_NEWTIME`: only for `unshare`; for `clone` the bit is part of the signal number.
const NEW_TIME: libc::c_int = 0x80;

/// The filters that can be installed before the sandbox is set up. A filter takes the kernel longer the more it denies;
/// these are off the critical path.
pub(super) fn early_filters() -> Result<Vec<Program>> {
    static MADE: OnceLock<Result<Vec<Program>>> = OnceLock::new();
    let make = || {
        let mut all = vec![
            deny_calls(refused_rules()?, SeccompAction::Errno(libc::EPERM.cast_unsigned()))?,
            deny_calls(missing_rules(), SeccompAction::Errno(libc::ENOSYS.cast_unsigned()))?,
            deny_calls(allocating_rules()?, SeccompAction::Errno(libc::EOPNOTSUPP.cast_unsigned()))?,
            deny_calls(netlink_rules()?, SeccompAction::Errno(libc::EPROTONOSUPPORT.cast_unsigned()))?,
            newer_calls_filter(),
        ];
        if cfg!(target_arch = "x86_64") {
            all.push(no_x32());
        }
        Ok(all)
    };
    MADE.get_or_init(|| to_programs(make())).clone()
}

/// The other filters, created once per kind. Without a control group, memory that no process maps would not be
/// accounted for, so System V shared memory is denied too.
pub(super) fn last_filters(group: bool) -> Result<Vec<Program>> {
    static MADE: [OnceLock<Result<Vec<Program>>>; 2] = [OnceLock::new(), OnceLock::new()];
    let make = || {
        Ok(vec![
            deny_calls(refused_last(group)?, SeccompAction::Errno(libc::EPERM.cast_unsigned()))?,
            // Error number 0: the call is skipped, and reported as successful.
            deny_calls(core_limits()?, SeccompAction::Errno(0))?,
        ])
    };
    MADE[usize::from(group)].get_or_init(|| to_programs(make())).clone()
}

/// The filter of a sandbox that has an image and whose user is root there. Only one user is mapped, so no file can belong to
/// another. Package managers set owners all the time, so changes of owners are reported as successful.
pub(super) fn owner_filter() -> Result<Vec<Program>> {
    static MADE: OnceLock<Result<Vec<Program>>> = OnceLock::new();
    let make = || {
        let rules = CHANGE_OWNER.iter().map(|call| (*call, Vec::new())).collect();
        Ok(vec![deny_calls(rules, SeccompAction::Errno(0))?])
    };
    MADE.get_or_init(|| to_programs(make())).clone()
}

/// Converts filters to the form that is sent to the new process.
fn to_programs(
    made: std::result::Result<Vec<BpfProgram>, seccompiler::BackendError>,
) -> Result<Vec<Program>> {
    let made = made.map_err(|error| {
        Error::new(Code::Unsupported, format!("koze has no system call filter for this machine: {error}"))
            .with_source(error)
    })?;
    let plain =
        |program: BpfProgram| program.into_iter().map(|line| (line.code, line.jt, line.jf, line.k)).collect();
    Ok(made.into_iter().map(plain).collect())
}

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// Creates a filter that allows all other calls. Calls of another architecture (32-bit) kill the program.
fn deny_calls(
    rules: Rules,
    action: SeccompAction,
) -> std::result::Result<BpfProgram, seccompiler::BackendError> {
    let architecture = TargetArch::try_from(std::env::consts::ARCH)?;
    SeccompFilter::new(rules, SeccompAction::Allow, action, architecture)?.try_into()
}

fn missing_rules() -> Rules {
    MISSING.iter().map(|call| (*call, Vec::new())).collect()
}

fn refused_last(group: bool) -> std::result::Result<Rules, seccompiler::BackendError> {
    let mut rules: Rules = REFUSED_LAST.iter().map(|call| (*call, Vec::new())).collect();
    if !group {
        rules.insert(libc::SYS_shmget, Vec::new());
    }
    rules.insert(libc::SYS_unshare, match_flags(NAMESPACES.iter().chain([&NEW_TIME]))?);
    Ok(rules)
}

/// Matches any of these flags in the first argument.
fn match_flags<'a>(
    all: impl IntoIterator<Item = &'a libc::c_int>,
) -> std::result::Result<Vec<SeccompRule>, seccompiler::BackendError> {
    let flag = |bit: &libc::c_int| {
        let bit = u64::from(bit.cast_unsigned());
        SeccompRule::new(vec![compare_argument(0, SeccompCmpOp::MaskedEq(bit), bit)?])
    };
    all.into_iter().map(flag).collect()
}

fn refused_rules() -> std::result::Result<Rules, seccompiler::BackendError> {
    let mut rules: Rules = REFUSED.iter().map(|call| (*call, Vec::new())).collect();
    rules.insert(libc::SYS_clone, match_flags(NAMESPACES)?);
    rules.insert(libc::SYS_socket, socket_rules()?);
    // Pairs are only of this family; TIPC, for example, supports pairs too.
    let unix = u64::from(libc::AF_UNIX.cast_unsigned());
    rules.insert(
        libc::SYS_socketpair,
        vec![SeccompRule::new(vec![compare_argument(0, SeccompCmpOp::Ne, unix)?])?],
    );
    // Limits of other processes, including the guest; and the limit of core files if the old value is requested too,
    // because the answer would be missing.
    let core = vec![
        match_core_limit()?,
        compare_pointer(2, SeccompCmpOp::Ne)?,
        compare_pointer(3, SeccompCmpOp::Ne)?,
    ];
    let limits = [vec![compare_argument(0, SeccompCmpOp::Ne, 0)?], core];
    rules.insert(libc::SYS_prlimit64, each_rule(limits)?);
    // Injecting input into a terminal.
    let typing = [libc::TIOCSTI, libc::TIOCLINUX].map(match_ioctl);
    rules.insert(libc::SYS_ioctl, typing.into_iter().collect::<std::result::Result<_, _>>()?);
    Ok(rules)
}

/// `AF_VSOCK`, for example, is not confined by network namespaces.
fn socket_rules() -> std::result::Result<Vec<SeccompRule>, seccompiler::BackendError> {
    let families = [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK]
        .iter()
        .map(|family| compare_argument(0, SeccompCmpOp::Ne, u64::from(family.cast_unsigned())))
        .collect::<std::result::Result<Vec<_>, _>>()?;
    each_rule([families])
}

/// Of netlink, only the protocol that lists interfaces (`getifaddrs`) is allowed. The others are reported as not supported by the
/// kernel: `useradd` and others then do without the audit log.
fn netlink_rules() -> std::result::Result<Rules, seccompiler::BackendError> {
    let netlink = vec![
        compare_argument(0, SeccompCmpOp::Eq, u64::from(libc::AF_NETLINK.cast_unsigned()))?,
        compare_argument(2, SeccompCmpOp::Ne, u64::from(libc::NETLINK_ROUTE.cast_unsigned()))?,
    ];
    Ok(Rules::from([(libc::SYS_socket, each_rule([netlink])?)]))
}

/// Denies calls that allocate disk space faster than the watch can check. Programs that need them fall back to writing,
/// as `posix_fallocate` does. Calls that free space are allowed.
fn allocating_rules() -> std::result::Result<Rules, seccompiler::BackendError> {
    let gives_back = (libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_COLLAPSE_RANGE).cast_unsigned();
    let takes = compare_argument(1, SeccompCmpOp::MaskedEq(gives_back.into()), 0)?;
    let requests = ALLOCATING.iter().chain([&FS_SET_XATTR]).map(|request| match_ioctl(*request));
    Ok(Rules::from([
        (libc::SYS_fallocate, vec![SeccompRule::new(vec![takes])?]),
        (libc::SYS_ioctl, requests.collect::<std::result::Result<_, _>>()?),
    ]))
}

/// Keeps the limit of core files at 1, which keeps the kernel from running the host's core helper (`core_pattern`) on
/// the memory of a crashed program; 0 does not. Programs that set it to 0, as `gpg` does, exit if that fails, so the
/// call is reported as successful.
fn core_limits() -> std::result::Result<Rules, seccompiler::BackendError> {
    let other = vec![
        match_core_limit()?,
        compare_pointer(2, SeccompCmpOp::Ne)?,
        compare_pointer(3, SeccompCmpOp::Eq)?,
    ];
    let plain = compare_argument(0, SeccompCmpOp::Eq, libc::RLIMIT_CORE.into())?;
    Ok(Rules::from([
        (libc::SYS_prlimit64, vec![SeccompRule::new(other)?]),
        (libc::SYS_setrlimit, vec![SeccompRule::new(vec![plain])?]),
    ]))
}

/// Matches `prlimit64` for core files.
fn match_core_limit() -> std::result::Result<SeccompCondition, seccompiler::BackendError> {
    compare_argument(1, SeccompCmpOp::Eq, libc::RLIMIT_CORE.into())
}

/// Compares a pointer argument with null.
fn compare_pointer(
    argument: u8,
    operator: SeccompCmpOp,
) -> std::result::Result<SeccompCondition, seccompiler::BackendError> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Qword, operator, 0)
}

/// Matches an `ioctl` request, of which the kernel uses 32 bits.
fn match_ioctl(request: u64) -> std::result::Result<SeccompRule, seccompiler::BackendError> {
    SeccompRule::new(vec![compare_argument(1, SeccompCmpOp::Eq, request & u64::from(u32::MAX))?])
}

fn each_rule<const N: usize>(
    all: [Vec<SeccompCondition>; N],
) -> std::result::Result<Vec<SeccompRule>, seccompiler::BackendError> {
    all.into_iter().map(SeccompRule::new).collect()
}

fn compare_argument(
    argument: u8,
    operator: SeccompCmpOp,
    value: u64,
) -> std::result::Result<SeccompCondition, seccompiler::BackendError> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value)
}

/// Instructions of BPF: loads a word, compares it, and returns an action.
const LOAD: u16 = 0x20;
const JUMP_IF_EQUAL: u16 = 0x15;
const JUMP_IF_AT_LEAST: u16 = 0x35;
const RETURN: u16 = 0x06;

fn filter_line(code: u16, jt: u8, jf: u8, k: u32) -> seccompiler::sock_filter {
    seccompiler::sock_filter { code, jt, jf, k }
}

/// Reports newer calls as missing, which rules for single calls cannot do.
fn newer_calls_filter() -> BpfProgram {
    let missing = libc::SECCOMP_RET_ERRNO | libc::ENOSYS.cast_unsigned();
    vec![
        filter_line(LOAD, 0, 0, 0),
        filter_line(JUMP_IF_EQUAL, 2, 0, NEWER_ALLOWED),
        filter_line(JUMP_IF_AT_LEAST, 0, 1, NEWER),
        filter_line(RETURN, 0, 0, missing),
        filter_line(RETURN, 0, 0, libc::SECCOMP_RET_ALLOW),
    ]
}

/// Kills programs that make x32 calls, which have their own numbers but the same architecture.
fn no_x32() -> BpfProgram {
    const X32: u32 = 0x4000_0000;
    vec![
        filter_line(LOAD, 0, 0, 0),
        filter_line(JUMP_IF_AT_LEAST, 0, 1, X32),
        filter_line(RETURN, 0, 0, libc::SECCOMP_RET_KILL_PROCESS),
        filter_line(RETURN, 0, 0, libc::SECCOMP_RET_ALLOW),
    ]
}
