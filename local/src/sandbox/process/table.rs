//! The processes of a running sandbox.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use koze_guest::roster::Roster;
use tokio::sync::Mutex as AsyncMutex;

use super::record::Record;
use koze_core::sandbox::process::{ProcessId, ProcessInfo};

/// The processes of a running sandbox.
#[derive(Debug, Default)]
pub(crate) struct Processes {
    roster: Mutex<Roster<Record>>,
    /// Serializes starts, so that two cannot take the same room.
    pub(super) starting: AsyncMutex<()>,
}

impl Processes {
    pub(super) fn roster(&self) -> MutexGuard<'_, Roster<Record>> {
        self.roster.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All running and kept processes, oldest first.
    pub(crate) fn list(&self) -> Vec<ProcessInfo> {
        self.roster().iter().map(|(_, record)| record.info()).collect()
    }

    pub(super) fn get(&self, id: &ProcessId) -> Option<Arc<Record>> {
        self.roster().get(id.as_str()).cloned()
    }
}
