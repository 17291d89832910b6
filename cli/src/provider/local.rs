//! Sandboxes of Linux namespaces, which [`koze_local`] provides.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use futures_util::FutureExt as _;
use koze_core::provider::{Info, Profile};
use koze_core::sandbox::Stat;
use koze_core::sandbox::process::{ProcessInfo, Program};
use koze_core::tool::programs::Programs;
use koze_core::{Profiles, Result, SessionId};
use koze_image::Store;
use koze_local::{Attached, Local, LocalProcess, LocalSandbox, NewFile};

pub(crate) use koze_local::{Objects, trees};

use super::engine::{EngineKind, list_containers, survey_containers};
use super::{
    AttachedProgram, AttachedStreams, MachineProvider, MachineSandbox, Measured, Secrets, Surveyed,
    TEST_NAMES, TreePipe,
};

/// The provider of what a session keeps, if its sandboxes are containers.
pub(super) type Base = Local;

/// Becomes the process of a sandbox, or the subject of an escape attempt, if this program was started as one. Returns the
/// exit code of an attempt.
pub(crate) fn init() -> Option<ExitCode> {
    koze_local::init();
    koze_local::prove::init()
}

/// Opens the sandboxes in the directory of a session, whose tool calls are recorded in a file.
///
/// # Errors
/// As [`Local::new`] and [`Local::with_journal`].
pub(crate) fn open(dir: &Path, secrets: Secrets, journal: PathBuf) -> Result<impl MachineProvider + use<>> {
    open_base(dir, secrets, journal)
}

/// Opens what a session keeps, and its scripts.
pub(super) fn open_base(dir: &Path, secrets: Secrets, journal: PathBuf) -> Result<Local> {
    open_with_images(dir)?.with_secrets(secrets).with_journal(journal)
}

/// Returns the engine of new sandboxes if the user names none: they are namespaces.
pub(crate) fn default_engine() -> Option<EngineKind> {
    None
}

/// Returns the directory of this user's images, if the working directory exists or it is not relative.
pub(crate) fn images_directory() -> Option<PathBuf> {
    std::path::absolute(Store::default_directory()).ok()
}

/// Returns the versions of this machine's programs, and the images whose files sandboxes of the profiles have instead.
pub(crate) fn find_programs<'a>(profiles: impl IntoIterator<Item = &'a Profile>) -> Programs {
    let used = koze_local::list_used_images(images_directory().as_deref(), profiles);
    let images = used.into_iter().map(|profile| profile.reference.clone()).collect();
    Programs { images, ..koze_local::find_programs() }
}

/// Opens the sandboxes in a directory, with the images of this user.
pub(super) fn open_with_images(dir: &Path) -> Result<Local> {
    let local = open_sandboxes(dir)?;
    Ok(match images_directory() {
        Some(images) => local.with_images(images),
        None => local,
    })
}

fn open_sandboxes(dir: &Path) -> Result<Local> {
    let names = if cfg!(debug_assertions) { std::env::var(TEST_NAMES).ok() } else { None };
    let Some(names) = names else { return Local::new(dir) };
    let server = |pair: &str| {
        let (name, address) = pair.split_once('=')?;
        Some((name.to_owned(), address.parse().ok()?))
    };
    let names = names.split(',').filter_map(server).collect();
    Local::with_names(dir, names)
}

/// Starts the server that backs the Durable Objects of `koze dev --local` with the sandboxes in the directory of a session.
///
/// # Errors
/// As [`Local::new`], [`Local::with_secrets`] and [`Objects::serve`].
pub(crate) fn serve_objects(dir: &Path, secrets: Secrets, session: SessionId) -> Result<Objects> {
    Objects::serve(open_with_images(dir)?.with_secrets(secrets), session)
}

/// Opens the directory of a session, for its store only.
///
/// # Errors
/// As [`Local::new`].
pub(super) fn open_directory(dir: &Path) -> Result<Base> {
    Local::new(dir)
}

/// Returns whether the directory of a session has sandboxes of namespaces.
///
/// # Errors
/// As [`Local::look`].
pub(crate) fn has_namespaces(dir: &Path) -> Result<bool> {
    Ok(dir.is_dir() && !Local::look(dir)?.is_empty())
}

/// Lists the sandboxes in the directory of a session, without starting anything.
///
/// # Errors
/// As [`Local::look`].
pub(crate) fn list_sandboxes(dir: &Path) -> Result<Vec<(SessionId, Info)>> {
    let mut all = Local::look(dir)?;
    all.extend(list_containers(dir)?);
    Ok(all)
}

/// Describes the sandboxes in the directory of a session, without starting anything.
///
/// # Errors
/// As [`Local::survey`].
pub(crate) fn survey_sandboxes(dir: &Path) -> Result<Vec<Surveyed>> {
    let mut all = Local::survey(dir)?;
    all.extend(survey_containers(dir)?);
    Ok(all)
}

impl MachineProvider for Local {
    async fn refresh(&self, session: &SessionId, profiles: &Profiles) -> Result<()> {
        self.refresh(session, profiles).await
    }

    async fn measure(&self, session: &SessionId) -> Result<Vec<Measured>> {
        self.measure(session).await
    }

    fn preview_port(&self) -> Option<u16> {
        self.preview_port()
    }

    async fn sleep(&self) -> Result<()> {
        self.sleep().await?;
        self.flush_journal().await
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

    async fn finish_file(&self, _: &NewFile) -> Result<()> {
        Ok(())
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

    type Attached = Attached;

    async fn attach(&self, program: Program) -> Result<(Attached, AttachedStreams)> {
        self.attach(program).await
    }

    async fn recorded(&self) -> Result<Vec<ProcessInfo>> {
        self.recorded_processes().await
    }

    async fn sleep(&self) -> Result<()> {
        self.sleep().await
    }
}

impl AttachedProgram for Attached {
    type Process = LocalProcess;

    fn process(&self) -> &LocalProcess {
        self.process()
    }

    async fn finish_output(&self) {}

    fn take_note(&self) -> Option<String> {
        self.take_note()
    }

    fn drain(&self, pipe: OwnedFd) {
        self.drain(pipe);
    }
}
