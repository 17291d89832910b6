//! Sandboxes in containers of Docker or podman, which [`koze_engine`] provides. The store, the scripts and the journal of a
//! session are those of this machine.

mod attached;
mod pipes;

use std::fs::File;
use std::io::{Seek as _, SeekFrom};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};

use futures_util::FutureExt as _;
use koze_core::provider::Info;
use koze_core::sandbox::process::{ProcessInfo, Program};
use koze_core::sandbox::{Kind, Place, Stat, Status};
use koze_core::{Code, Error, Profiles, Result, Sandbox as _, SessionId};
use koze_engine::{Engine, EngineSandbox, has_recorded, list_recorded};
use koze_state::SandboxLimits;
use tokio::fs::File as AsyncFile;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

pub(crate) use koze_engine::{EngineKind, VARIABLES as ENGINE_VARIABLES};

use self::attached::EngineAttached;
use super::local::{Base, open_base};
use super::{AttachedStreams, MachineProvider, MachineSandbox, Measured, Secrets, Surveyed, TreePipe};

/// How much of a file is copied at once, in bytes.
const COPIED: usize = 256 << 10;
/// How many links are followed to the file that is opened, as in Linux.
const MAX_LINKS: usize = 40;

/// Opens the sandboxes in the directory of a session, whose tool calls are recorded in a file.
///
/// # Errors
/// As for the sandboxes of namespaces. The engine is asked on first use.
pub(crate) fn open_engine(
    kind: EngineKind,
    dir: &Path,
    secrets: Secrets,
    journal: PathBuf,
) -> Result<impl MachineProvider + use<>> {
    let base = open_base(dir, secrets.clone(), journal)?;
    let engine = Engine::new(kind, dir, koze_templates::GUEST, base).with_secrets(secrets);
    Ok(engine.with_known_previews())
}

/// Returns whether the directory of a session has sandboxes in containers.
pub(crate) fn has_containers(dir: &Path) -> Result<bool> {
    has_recorded(dir)
}

/// Lists the sandboxes in the directory of a session that are containers. Asks no engine.
pub(super) fn list_containers(dir: &Path) -> Result<Vec<(SessionId, Info)>> {
    let info = |recorded: koze_engine::Recorded| {
        let status = if recorded.is_running { Status::Running } else { Status::Sleeping };
        let profile = recorded.record.settings.profile.name;
        (recorded.id.session, Info { name: recorded.id.name, profile, status, saved: None })
    };
    Ok(list_recorded(dir)?.into_iter().map(info).collect())
}

/// Describes the sandboxes in the directory of a session that are containers. Asks no engine.
pub(super) fn survey_containers(dir: &Path) -> Result<Vec<Surveyed>> {
    let seconds = |millis: u64| i64::try_from(millis / 1000).unwrap_or(i64::MAX);
    let survey = |recorded: koze_engine::Recorded| {
        let koze_engine::Recorded { id, record, is_running } = recorded;
        let size = record.settings.profile.size;
        let limits = SandboxLimits {
            memory: u64::from(size.memory_mib) << 20,
            // Engines limit it on some file systems only.
            disk: u64::MAX,
            processors: size.processors() * 1000,
            processes: koze_engine::MAX_PROCESSES,
        };
        Surveyed {
            id,
            root: Some(format!("a container of the image `{}`", record.settings.profile.stored_name())),
            status: if is_running { Status::Running } else { Status::Sleeping },
            used: seconds(record.used),
            created: Some(seconds(record.created)),
            is_exposed: record.is_exposed(),
            // Nothing of this machine is mounted.
            mounts: vec![("/".to_owned(), true)],
            limits,
            settings: record.settings,
        }
    };
    Ok(list_recorded(dir)?.into_iter().map(survey).collect())
}

impl MachineProvider for Engine<Base> {
    async fn refresh(&self, session: &SessionId, profiles: &Profiles) -> Result<()> {
        Engine::refresh(self, session, profiles).await
    }

    fn preview_port(&self) -> Option<u16> {
        Engine::preview_port(self)
    }

    /// Reports which sandboxes run. What their programs use is known to the engine only.
    async fn measure(&self, session: &SessionId) -> Result<Vec<Measured>> {
        let measured = |running: koze_engine::RunningSandbox| Measured {
            name: running.name,
            memory: None,
            processor_time: None,
            disk: None,
            ports: Vec::new(),
            is_in_use: running.is_in_use,
            idle: running.idle,
            sleeps_in: (!running.is_in_use).then(|| running.sleep_after.saturating_sub(running.idle)),
            has_memory_group: true,
            has_processor_group: true,
        };
        Ok(self.running(session).into_iter().map(measured).collect())
    }

    async fn sleep(&self) -> Result<()> {
        Engine::sleep(self).await?;
        MachineProvider::sleep(self.base()).await
    }
}

/// A file that is copied into a container once the other process has written it.
pub(crate) struct NewFile {
    file: File,
    path: String,
}

impl AsFd for NewFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl MachineSandbox for EngineSandbox {
    type NewFile = NewFile;

    /// Copies the file out of the container first, so that an error in the middle is not a short file.
    async fn open_file(&self, path: &str) -> Result<(File, Stat)> {
        let mut content = self.read_stream(path).await?;
        let mut file = AsyncFile::from_std(tempfile::tempfile().map_err(no_room)?);
        let mut size = 0;
        while let Some(bytes) = content.next().await? {
            file.write_all(&bytes).await.map_err(no_room)?;
            size += bytes.len() as u64;
        }
        file.flush().await.map_err(no_room)?;
        let mut file = file.into_std().await;
        file.seek(SeekFrom::Start(0)).map_err(no_room)?;
        Ok((file, Stat { size, ..describe_file(self, path).await? }))
    }

    async fn create_file(&self, path: &str) -> Result<(NewFile, u64)> {
        let file = tempfile::tempfile().map_err(no_room)?;
        // It must exist when its permission bits are set.
        self.write_stream(path).await?.finish_file().await?;
        Ok((NewFile { file, path: path.to_owned() }, self.room()))
    }

    async fn finish_file(&self, new: &NewFile) -> Result<()> {
        let mut file = new.file.try_clone().map_err(no_room)?;
        file.seek(SeekFrom::Start(0)).map_err(no_room)?;
        let mut file = AsyncFile::from_std(file);
        let mut content = self.write_stream(&new.path).await?;
        let mut buffer = vec![0; COPIED];
        loop {
            let read = file.read(&mut buffer).await.map_err(no_room)?;
            if read == 0 || !content.write(&buffer[..read]).await? {
                return content.finish_file().await.map(drop);
            }
        }
    }

    async fn pack_tree(&self, path: &str) -> Result<TreePipe<()>> {
        let (pipe, done) = pipes::pipe_out(EngineSandbox::pack_tree(self, path).await?)?;
        Ok(TreePipe { pipe, done: done.boxed() })
    }

    async fn unpack_tree(&self, path: &str) -> Result<TreePipe<u64>> {
        let incoming = EngineSandbox::unpack_tree(self, path).await?;
        let (pipe, done) = pipes::pipe_in(incoming, koze_engine::Incoming::finish_tree)?;
        Ok(TreePipe { pipe, done: done.boxed() })
    }

    async fn pack_archive(&self, path: &str) -> Result<TreePipe<()>> {
        let (pipe, done) = pipes::pipe_out(EngineSandbox::pack_archive(self, path).await?)?;
        Ok(TreePipe { pipe, done: done.boxed() })
    }

    async fn unpack_archive(&self, path: &str) -> Result<TreePipe<()>> {
        let incoming = EngineSandbox::unpack_archive(self, path).await?;
        let (pipe, done) = pipes::pipe_in(incoming, koze_engine::Incoming::finish_archive)?;
        Ok(TreePipe { pipe, done: async { done.await.map(drop) }.boxed() })
    }

    type Attached = EngineAttached;

    async fn attach(&self, program: Program) -> Result<(EngineAttached, AttachedStreams)> {
        attached::attach(self, program).await
    }

    async fn recorded(&self) -> Result<Vec<ProcessInfo>> {
        // The label says whose output a command has read.
        let mut all = self.processes().await?;
        all.retain(|process| process.label.as_deref() != Some(attached::LABEL));
        Ok(all)
    }

    async fn sleep(&self) -> Result<()> {
        EngineSandbox::sleep(self).await
    }
}

/// Describes the file at a path. A final link is followed.
async fn describe_file(sandbox: &EngineSandbox, path: &str) -> Result<Stat> {
    let mut path = path.to_owned();
    for _ in 0..MAX_LINKS {
        let stat = sandbox.stat(Place { root: "/", path: &path }).await?;
        let Kind::Link(target) = &stat.kind else { return Ok(stat) };
        path = match target.strip_prefix('/') {
            Some(_) => target.clone(),
            None => format!("{}/{target}", path.rsplit_once('/').map_or("", |(parent, _)| parent)),
        };
    }
    Err(Error::new(Code::InvalidInput, format!("`{path}` is a link to itself")))
}

/// The error for a copy of a file that this machine has no room for.
fn no_room(error: std::io::Error) -> Error {
    let message =
        format!("the file cannot be copied through this machine's directory of temporary files: {error}");
    Error::new(Code::Unavailable, message).with_source(error)
}
