//! Hardens the guest, and drops capabilities for itself and all that it starts, before anything else happens.
//!
//! - Its memory, environment and descriptors are protected: it is not dumpable. So `/proc/1/{mem,environ,…}`, `ptrace`
//!   and related calls require `CAP_SYS_PTRACE`, and no core dump of it is written.
//! - No program in the container has that capability, nor any other that Docker does not grant by default: they are
//!   removed from the bounding set. `CAP_NET_RAW` is removed too, although Docker grants it: it would reveal the token
//!   on its way through the container's network.
#![allow(unsafe_code, reason = "signal has no safe form")]

use std::io;

use rustix::process::{DumpableBehavior, set_dumpable_behavior};
use rustix::thread::{CapabilitySet, CapabilitySets};

use crate::sys;

/// The capabilities that are kept.
const KEPT: CapabilitySet = CapabilitySet::CHOWN
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::FSETID)
    .union(CapabilitySet::KILL)
    .union(CapabilitySet::SETGID)
    .union(CapabilitySet::SETUID)
    .union(CapabilitySet::SETPCAP)
    .union(CapabilitySet::NET_BIND_SERVICE)
    .union(CapabilitySet::SYS_CHROOT)
    .union(CapabilitySet::MKNOD)
    .union(CapabilitySet::AUDIT_WRITE)
    .union(CapabilitySet::SETFCAP);

/// The protections that are left out, for the controls of the tests. Only debug builds support this.
#[derive(Debug, Clone, Copy)]
pub(super) struct Weak {
    /// The memory stays readable.
    pub(super) memory: bool,
    /// The token stays in the environment.
    pub(super) environment: bool,
    /// Capabilities are kept.
    pub(super) capabilities: bool,
}

impl Weak {
    /// Reads the environment variable `KOZE_GUEST_WEAK`.
    pub(super) fn from_environment() -> Self {
        let asked =
            if cfg!(debug_assertions) { std::env::var(WEAK).unwrap_or_default() } else { String::new() };
        let names = |name| asked.split(',').any(|word| word == name);
        Weak {
            memory: names("memory"),
            environment: names("environment"),
            capabilities: names("capabilities"),
        }
    }
}

/// The environment variable that lists the protections to leave out.
pub(super) const WEAK: &str = "KOZE_GUEST_WEAK";

/// Makes the memory of this process inaccessible to others. This comes first, because the memory contains the token.
pub(super) fn hide_memory(weak: Weak) -> io::Result<()> {
    if weak.memory {
        return Ok(());
    }
    Ok(set_dumpable_behavior(DumpableBehavior::NotDumpable)?)
}

/// Drops capabilities of this thread. It is the only one yet, so later threads inherit the result.
pub(super) fn drop_capabilities(weak: Weak) -> io::Result<()> {
    if weak.capabilities {
        return Ok(());
    }
    for number in 0..64 {
        let capability = CapabilitySet::from_bits_retain(1 << number);
        if KEPT.contains(capability) {
            continue;
        }
        match rustix::thread::remove_capability_from_bounding_set(capability) {
            Ok(()) => {}
            // Past the last capability that this kernel has.
            Err(rustix::io::Errno::INVAL) => break,
            // An unprivileged user may not do this. Then programs must not gain privileges either, so that `sudo` has
            // no effect.
            Err(rustix::io::Errno::PERM) => {
                rustix::thread::set_no_new_privs(true)?;
                break;
            }
            Err(error) => return Err(error.into()),
        }
    }
    rustix::thread::clear_ambient_capability_set()?;
    let now = rustix::thread::capabilities(None)?;
    let sets = CapabilitySets {
        effective: now.effective & KEPT,
        permitted: now.permitted & KEPT,
        inheritable: CapabilitySet::empty(),
    };
    rustix::thread::set_capabilities(None, sets)?;
    // A change of capabilities may make the process dumpable again.
    hide_memory(weak)
}

/// Resets all signal dispositions to the default. Rust installs handlers that report a stack overflow. A handler would
/// let any process of the container send that signal to the first process, which is otherwise immune.
pub(super) fn ignore_signals() {
    sys::ignore_no_signal();
    for signal in [libc::SIGSEGV, libc::SIGBUS] {
        // SAFETY: this restores the default disposition, which runs no code of ours.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
}
