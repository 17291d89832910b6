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
    /// Those whose streams belong to their callers. They take no room for output, and are forgotten at their end.
    attached: Mutex<Vec<Arc<Record>>>,
    /// Serializes starts, so that two cannot take the same room.
    pub(super) starting: AsyncMutex<()>,
}

impl Processes {
    pub(super) fn roster(&self) -> MutexGuard<'_, Roster<Record>> {
        self.roster.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All running and kept processes, oldest first, and then those whose streams belong to their callers.
    pub(crate) fn list(&self) -> Vec<ProcessInfo> {
        let mut infos = self.list_recorded();
        infos.extend(self.attached().iter().map(|record| record.info()));
        infos
    }

    /// All whose output is kept, oldest first.
    pub(crate) fn list_recorded(&self) -> Vec<ProcessInfo> {
        self.roster().iter().map(|(_, record)| record.info()).collect()
    }

    pub(super) fn get(&self, id: &ProcessId) -> Option<Arc<Record>> {
        let recorded = self.roster().get(id.as_str()).cloned();
        recorded.or_else(|| self.attached().iter().find(|record| record.id == *id).cloned())
    }

    pub(super) fn attached(&self) -> MutexGuard<'_, Vec<Arc<Record>>> {
        self.attached.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
