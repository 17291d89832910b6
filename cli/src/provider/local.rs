//! Sandboxes of Linux namespaces, which [`koze_local`] provides.

use std::fs::File;
use std::path::Path;
use std::process::ExitCode;

use futures_util::FutureExt as _;
use koze_core::provider::Info;
use koze_core::sandbox::Stat;
use koze_core::workspace::WorkspaceSnapshots;
use koze_core::{Profiles, Result, Session, SessionId};
use koze_local::{Local, LocalSandbox, NewFile};

pub(crate) use koze_local::{Connections, Objects, Proof, Reached, Secrets, archives, block_on, trees};

use super::{MachineProvider, MachineSandbox, TreePipe};

/// The variable for servers of a test, which sandboxes reach by name: `NAME=ADDRESS`, separated by commas. Only a program
/// with debug assertions reads it.
pub(crate) const TEST_NAMES: &str = "KOZE_TESTING_NAMES";

/// Becomes the process of a sandbox, or the subject of an escape attempt, if this program was started as one. Returns the
/// exit code of an attempt.
pub(crate) fn init() -> Option<ExitCode> {
    koze_local::init();
    koze_local::prove::init()
}

/// Opens the sandboxes in the directory of a session.
///
/// # Errors
/// As [`Local::new`].
pub(crate) fn open(dir: &Path, secrets: Secrets) -> Result<impl MachineProvider + use<>> {
    let names = if cfg!(debug_assertions) { std::env::var(TEST_NAMES).ok() } else { None };
    let Some(names) = names else { return Ok(Local::new(dir)?.with_secrets(secrets)) };
    let server = |pair: &str| {
        let (name, address) = pair.split_once('=')?;
        Some((name.to_owned(), address.parse().ok()?))
    };
    let names = names.split(',').filter_map(server).collect();
    Ok(Local::with_names(dir, names)?.with_secrets(secrets))
}

/// Starts the server that backs the Durable Objects of `koze dev --local` with the sandboxes in the directory of a session.
///
/// # Errors
/// As [`Local::new`] and [`Objects::serve`].
pub(crate) fn serve_objects(dir: &Path, session: SessionId) -> Result<Objects> {
    Objects::serve(Local::new(dir)?, session)
}

/// Opens the snapshots of a workspace in the directory of a session. This starts no sandbox.
///
/// # Errors
/// As [`Local::new`], and if the workspace has no snapshots.
pub(crate) fn open_snapshots(
    dir: &Path,
    session: &SessionId,
    profiles: &Profiles,
    workspace: &str,
) -> Result<WorkspaceSnapshots> {
    let session = Session::new(Local::new(dir)?, session.clone(), profiles.clone());
    Ok(session.workspaces().snapshots(workspace)?)
}

/// Lists the sandboxes in the directory of a session, without starting anything.
///
/// # Errors
/// As [`Local::look`].
pub(crate) fn list_sandboxes(dir: &Path) -> Result<Vec<(SessionId, Info)>> {
    Local::look(dir)
}

/// Returns which hosts the sandboxes in the directory of a session reached and were refused, oldest first.
///
/// # Errors
/// As [`Local::egress`].
pub(crate) fn read_egress(dir: &Path) -> Result<Vec<Reached>> {
    Local::egress(dir)
}

impl MachineProvider for Local {
    async fn refresh(&self, session: &SessionId, profiles: &Profiles) -> Result<()> {
        self.refresh(session, profiles).await
    }

    async fn sleep(&self) -> Result<()> {
        self.sleep().await
    }
}

impl MachineSandbox for LocalSandbox {
    type NewFile = NewFile;

    async fn open_file(&self, path: &str) -> Result<(File, Stat)> {
        self.open_file(path).await
    }

    async fn create_file(&self, path: &str) -> Result<(NewFile, u64)> {
        let new = self.create_file(path).await?;
        let room = new.room;
        Ok((new, room))
    }

    async fn pack_tree(&self, path: &str) -> Result<TreePipe<()>> {
        let koze_local::TreePipe { pipe, outcome } = self.pack_tree(path).await?;
        Ok(TreePipe { pipe, done: outcome.packed().boxed() })
    }

    async fn unpack_tree(&self, path: &str) -> Result<TreePipe<u64>> {
        let koze_local::TreePipe { pipe, outcome } = self.unpack_tree(path).await?;
        Ok(TreePipe { pipe, done: outcome.unpacked().boxed() })
    }

    async fn pack_archive(&self, path: &str) -> Result<TreePipe<()>> {
        let koze_local::TreePipe { pipe, outcome } = self.archive_pipe(path).await?;
        Ok(TreePipe { pipe, done: outcome.packed().boxed() })
    }

    async fn unpack_archive(&self, path: &str) -> Result<TreePipe<()>> {
        let koze_local::TreePipe { pipe, outcome } = self.extract_pipe(path).await?;
        Ok(TreePipe { pipe, done: async { outcome.extracted().await.map(drop) }.boxed() })
    }
}
