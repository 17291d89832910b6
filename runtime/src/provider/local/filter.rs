//! The filter of system calls: what no program in a sandbox needs, and a way out has been found through before.

use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch,
};

use super::launch::Program;
use crate::error::{Code, Error, Result};

/// Refused whatever their arguments are.
const REFUSED: &[i64] = &[
    // Mounts: a user namespace would allow them.
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
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
    // Keyrings know no namespaces.
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    // Large and often broken parts of the kernel.
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

/// Not there at all: programs then take an older way. The flags of `clone3` lie in memory, where no filter sees them.
const MISSING: &[i64] =
    &[libc::SYS_clone3, libc::SYS_io_uring_setup, libc::SYS_io_uring_enter, libc::SYS_io_uring_register];

const NAMESPACES: &[libc::c_int] = &[
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWNS,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWNET,
    libc::CLONE_NEWCGROUP,
];
/// `CLONE_NEWTIME`: for `unshare` alone; for `clone` the bit is part of a signal's number.
const NEW_TIME: libc::c_int = 0x80;

/// The filters, for the kernel. Without a control group, memory that no process maps would count nowhere: then shared
/// memory of the System V kind is refused too.
pub(super) fn filters(group: bool) -> Result<Vec<Program>> {
    let built = || -> std::result::Result<Vec<BpfProgram>, seccompiler::BackendError> {
        let mut all = vec![
            program(refused(group)?, SeccompAction::Errno(libc::EPERM.cast_unsigned()))?,
            program(missing(), SeccompAction::Errno(libc::ENOSYS.cast_unsigned()))?,
        ];
        if cfg!(target_arch = "x86_64") {
            all.push(no_x32());
        }
        Ok(all)
    };
    let built = built().map_err(|error| {
        Error::new(Code::Unsupported, format!("there is no filter of system calls for this machine: {error}"))
    })?;
    let plain =
        |program: BpfProgram| program.into_iter().map(|line| (line.code, line.jt, line.jf, line.k)).collect();
    Ok(built.into_iter().map(plain).collect())
}

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// All calls but these are allowed; those of another architecture (32-bit) end the program.
fn program(
    rules: Rules,
    action: SeccompAction,
) -> std::result::Result<BpfProgram, seccompiler::BackendError> {
    let architecture = TargetArch::try_from(std::env::consts::ARCH)?;
    SeccompFilter::new(rules, SeccompAction::Allow, action, architecture)?.try_into()
}

fn missing() -> Rules {
    MISSING.iter().map(|call| (*call, Vec::new())).collect()
}

fn refused(group: bool) -> std::result::Result<Rules, seccompiler::BackendError> {
    let mut rules: Rules = REFUSED.iter().map(|call| (*call, Vec::new())).collect();
    if !group {
        rules.insert(libc::SYS_shmget, Vec::new());
    }
    let flag = |bit: libc::c_int| -> std::result::Result<SeccompRule, seccompiler::BackendError> {
        let bit = u64::from(bit.cast_unsigned());
        SeccompRule::new(vec![condition(0, SeccompCmpOp::MaskedEq(bit), bit)?])
    };
    let namespaces = NAMESPACES.iter().map(|bit| flag(*bit)).collect::<std::result::Result<Vec<_>, _>>()?;
    let mut unshare = namespaces.clone();
    unshare.push(flag(NEW_TIME)?);
    rules.insert(libc::SYS_clone, namespaces);
    rules.insert(libc::SYS_unshare, unshare);
    // AF_VSOCK, for one, leads past every network namespace.
    let family = [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK]
        .iter()
        .map(|family| condition(0, SeccompCmpOp::Ne, u64::from(family.cast_unsigned())))
        .collect::<std::result::Result<Vec<_>, _>>()?;
    rules.insert(libc::SYS_socket, vec![SeccompRule::new(family)?]);
    // Limits of other processes, the guest's among them.
    rules.insert(libc::SYS_prlimit64, vec![SeccompRule::new(vec![condition(0, SeccompCmpOp::Ne, 0)?])?]);
    // Typing into a terminal in somebody else's name.
    let typing = [libc::TIOCSTI, libc::TIOCLINUX].map(|request| {
        let all = u64::from(u32::MAX);
        SeccompRule::new(vec![SeccompCondition::new(
            1,
            SeccompCmpArgLen::Qword,
            SeccompCmpOp::MaskedEq(all),
            request & all,
        )?])
    });
    rules.insert(libc::SYS_ioctl, typing.into_iter().collect::<std::result::Result<_, _>>()?);
    Ok(rules)
}

fn condition(
    argument: u8,
    operator: SeccompCmpOp,
    value: u64,
) -> std::result::Result<SeccompCondition, seccompiler::BackendError> {
    SeccompCondition::new(argument, SeccompCmpArgLen::Dword, operator, value)
}

/// Calls of the x32 kind have numbers of their own, and the architecture of all others: they end the program.
fn no_x32() -> BpfProgram {
    const LOAD: u16 = 0x20;
    const JUMP_IF_AT_LEAST: u16 = 0x35;
    const RETURN: u16 = 0x06;
    const X32: u32 = 0x4000_0000;
    let line = |code, jt, jf, k| seccompiler::sock_filter { code, jt, jf, k };
    vec![
        line(LOAD, 0, 0, 0),
        line(JUMP_IF_AT_LEAST, 0, 1, X32),
        line(RETURN, 0, 0, libc::SECCOMP_RET_KILL_PROCESS),
        line(RETURN, 0, 0, libc::SECCOMP_RET_ALLOW),
    ]
}
