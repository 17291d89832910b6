//! What the guest gives up, for itself and for all that it starts, before anything else happens.
//!
//! - Its memory, environment and descriptors are for nobody: it is not dumpable, so `/proc/1/{mem,environ,…}`, `ptrace` and
//!   its relatives take `CAP_SYS_PTRACE`, and no core is ever written of it.
//! - No program of the container has that capability, nor any that Docker does not give by itself: they leave the
//!   bounding set. `CAP_NET_RAW` goes with them though Docker gives it: it would show the token on its way through the
//!   container's own network.
#![allow(unsafe_code, reason = "signal has no safe form")]

use std::io;

use rustix::process::{DumpableBehavior, set_dumpable_behavior};
use rustix::thread::{CapabilitySet, CapabilitySets};

use crate::sys;

/// The capabilities that stay.
const STAY: CapabilitySet = CapabilitySet::CHOWN
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

/// What is left out, for controls of the tests. Only debug builds know of it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Weak {
    /// The memory stays readable.
    pub(super) memory: bool,
    /// The token stays in the environment.
    pub(super) environment: bool,
    /// Capabilities stay.
    pub(super) capabilities: bool,
}

impl Weak {
    /// What the variable `KOZE_GUEST_WEAK` names.
    pub(super) fn asked_for() -> Self {
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

/// The variable that names what is left out.
pub(super) const WEAK: &str = "KOZE_GUEST_WEAK";

/// Makes the memory of this process its own. First of all: the token is in it.
pub(super) fn memory(weak: Weak) -> io::Result<()> {
    if weak.memory {
        return Ok(());
    }
    Ok(set_dumpable_behavior(DumpableBehavior::NotDumpable)?)
}

/// Gives up capabilities, for this thread, which is the only one yet, and so for all there will be.
pub(super) fn capabilities(weak: Weak) -> io::Result<()> {
    if weak.capabilities {
        return Ok(());
    }
    for number in 0..64 {
        let capability = CapabilitySet::from_bits_retain(1 << number);
        if STAY.contains(capability) {
            continue;
        }
        match rustix::thread::remove_capability_from_bounding_set(capability) {
            Ok(()) => {}
            // Beyond the last one this kernel knows.
            Err(rustix::io::Errno::INVAL) => break,
            // A plain user may not. Then no program may have more than it, either: `sudo` does nothing.
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
        effective: now.effective & STAY,
        permitted: now.permitted & STAY,
        inheritable: CapabilitySet::empty(),
    };
    rustix::thread::set_capabilities(None, sets)?;
    // Where capabilities change, the kernel may think again about the memory.
    memory(weak)
}

/// Has no signal ignored, and none handled. Rust's own handlers say on which thread a stack overflowed. With a handler, the
/// first process of a container is reached by signals that anybody in it sends; without one it is not.
pub(super) fn signals() {
    sys::ignore_no_signal();
    for signal in [libc::SIGSEGV, libc::SIGBUS] {
        // SAFETY: sets the default again, which runs no code of ours.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
}
