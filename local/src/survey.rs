//! What people see of the sandboxes on this machine: their settings, limits and mounts, what they use, and what they reached.

use std::path::Path;
use std::sync::Arc;

use koze_core::error::Result;
use koze_core::id::{SandboxId, SessionId};
use koze_core::provider::Settings;
use koze_core::sandbox::Status;

use crate::host::claim::is_claimed;
use crate::host::layout;
use crate::host::registry::{Registry, Row};
use crate::network::egress;
use crate::sandbox::image::SandboxImage;
use crate::sandbox::inner::Inner;
use crate::sandbox::limits;
use crate::sandbox::view::list_mounts;
use crate::watch::measure::{Measured, measure_sandbox};
use crate::{Local, Reached, engine};

/// A sandbox of a state directory.
#[derive(Debug)]
pub struct Surveyed {
    /// Its session and its name.
    pub id: SandboxId,
    /// Its settings.
    pub settings: Settings,
    /// Whether any program runs it.
    pub status: Status,
    /// When it was last started or put to sleep, in seconds since the epoch.
    pub used: i64,
    /// When it was created, if known.
    pub created: Option<i64>,
    /// Whether it has a preview.
    pub is_exposed: bool,
    /// Its limits.
    pub limits: SandboxLimits,
    /// The digest of the image whose files are its root. `None` if it sees the programs of this machine.
    pub root: Option<String>,
}

impl Surveyed {
    /// Returns which paths of this machine or of its own the sandbox sees, and whether it can write to them.
    #[must_use]
    pub fn mounts(&self) -> Vec<(String, bool)> {
        let is_writable = |(_, writable): &(String, bool)| *writable;
        match self.root {
            Some(_) => std::iter::once(("/".to_owned(), true))
                .chain(list_mounts().into_iter().filter(is_writable))
                .collect(),
            None => list_mounts(),
        }
    }
}

/// The limits of a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SandboxLimits {
    /// Memory in bytes.
    pub memory: u64,
    /// Disk in bytes.
    pub disk: u64,
    /// Processor time, in thousandths of a processor.
    pub processors: u64,
    /// Processes and threads.
    pub processes: u64,
}

impl Local {
    /// Describes the sandboxes of a state directory, of all sessions, without starting anything.
    ///
    /// # Errors
    /// If the registry cannot be read.
    pub fn survey(state: impl AsRef<Path>) -> Result<Vec<Surveyed>> {
        let state = state.as_ref();
        let rows = Registry::open(state)?.rows()?;
        let survey = |row: Row| {
            let directory = layout::sandbox_directory(state, &row.id.key());
            let is_running = is_claimed(&directory);
            Surveyed {
                // One that cannot be read is an error when the sandbox starts.
                root: SandboxImage::of(&directory).ok().flatten().map(|image| image.id().to_owned()),
                status: if is_running { Status::Running } else { Status::Sleeping },
                used: row.used,
                created: row.created,
                is_exposed: row.is_exposed,
                limits: SandboxLimits {
                    memory: limits::memory_limit(&row.settings),
                    disk: limits::disk_limit(&row.settings),
                    processors: limits::processor_limit(&row.settings),
                    processes: limits::PROCESSES,
                },
                id: row.id,
                settings: row.settings,
            }
        };
        Ok(rows.into_iter().map(survey).collect())
    }

    /// Measures the sandboxes of a session that run in this program.
    ///
    /// # Errors
    /// [`Code::Unavailable`](koze_core::Code::Unavailable) if the threads of this provider cannot be created.
    pub async fn measure(&self, session: &SessionId) -> Result<Vec<Measured>> {
        let sandboxes = self.0.sandboxes();
        let session = session.clone();
        engine::run_blocking(move || {
            let of_session = sandboxes.iter().filter(|sandbox| sandbox.is_of(&session));
            let measure = |sandbox: &Arc<Inner>| Some(measure_sandbox(sandbox, &*sandbox.running()?));
            Ok(of_session.filter_map(measure).collect())
        })
        .await
    }

    /// Returns the egress journal of a state directory, oldest entries first. Its size is limited: of allowed and
    /// denied attempts, the latest several thousand each are kept.
    ///
    /// # Errors
    /// [`Code::Unavailable`](koze_core::Code::Unavailable) if the journal cannot be read.
    pub fn egress(state: impl AsRef<Path>) -> Result<Vec<Reached>> {
        egress::read_journal(state.as_ref())
    }
}
