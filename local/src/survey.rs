//! What people see of the sandboxes on this machine: their settings, limits and mounts, what they use, and what they reached.

use std::path::Path;
use std::sync::Arc;

use koze_core::error::Result;
use koze_core::id::SessionId;
use koze_core::sandbox::Status;
use koze_state::{Measured, Reached, SandboxLimits, Surveyed};

use crate::host::claim::is_claimed;
use crate::host::layout;
use crate::host::registry::{Registry, Row};
use crate::sandbox::image::SandboxImage;
use crate::sandbox::inner::Inner;
use crate::sandbox::limits;
use crate::sandbox::view::list_mounts;
use crate::watch::measure::measure_sandbox;
use crate::{Local, engine};

/// Returns which paths of this machine or of its own a sandbox sees, and whether it can write to them.
fn visible_paths(root: Option<&str>) -> Vec<(String, bool)> {
    let is_writable = |(_, writable): &(String, bool)| *writable;
    match root {
        Some(_) => std::iter::once(("/".to_owned(), true))
            .chain(list_mounts().into_iter().filter(is_writable))
            .collect(),
        None => list_mounts(),
    }
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
            // One that cannot be read is an error when the sandbox starts.
            let root = SandboxImage::of(&directory).ok().flatten().map(|image| image.id().to_owned());
            Surveyed {
                mounts: visible_paths(root.as_deref()),
                root,
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

    /// Returns the port on the loopback interface at which this program serves previews, if it does.
    pub fn preview_port(&self) -> Option<u16> {
        self.0.previews.port()
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
        koze_state::read_egress(state.as_ref())
    }
}
