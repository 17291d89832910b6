//! The state of the guest, which all threads share.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::drain::Drain;
use super::environment::Environment;
use super::link::Link;
use super::memory::Kills;
use super::pool::Pool;
use super::process::Processes;
use super::programs::Programs;
use super::tunnel::Listeners;
use crate::message::{Code, Fault};

/// The state that all threads share.
pub(super) struct Guest {
    pub(super) environment: Environment,
    pub(super) programs: Programs,
    pub(super) processes: Processes,
    pub(super) drain: Drain,
    pub(super) kills: Kills,
    pub(super) pool: Pool,
    pub(super) connections: Mutex<VecDeque<Arc<Link>>>,
    pub(super) writer: Mutex<()>,
    pub(super) listeners: Listeners,
    pub(super) proc: bool,
}

impl Guest {
    /// Locks the authenticated connections.
    pub(super) fn lock_connections(&self) -> MutexGuard<'_, VecDeque<Arc<Link>>> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Serializes the operations that put a file in place.
    pub(super) fn lock_writer(&self) -> MutexGuard<'_, ()> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns an error if the container lacks what every call needs.
    pub(super) fn check_usable(&self) -> Result<(), Fault> {
        if self.proc { Ok(()) } else { Err(no_proc()) }
    }
}

/// The error of every call if the container has no `/proc`.
pub(super) fn no_proc() -> Fault {
    let text = "the container has no /proc, which the guest needs to find files and processes";
    Fault::new(Code::Unsupported, text)
}
