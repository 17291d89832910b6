//! A sandbox, and its operations.
//!
//! | module | job |
//! |---|---|
//! | `inner` | the state of a sandbox: asleep, running or destroyed |
//! | `ahead` | prepares the next sandbox |
//! | `view` | what programs in a sandbox see |
//! | `limits` | the limits of a sandbox |
//! | `egress` | its network: the proxy to the hosts of its policy |
//! | `running` | a running sandbox: the connection to its guest |
//! | `judgement` | why its programs failed |
//! | `ended` | the programs that ended when it slept or restarted |
//! | `exec`, `background` | runs programs; the pipes of those that keep running |
//! | `process` | programs that keep running after the call that started them |
//! | `files`, `search` | its files |
//! | `staging` | paths that a crash may leave behind |
//! | `transfer` | copies trees between sandboxes |
//! | `archive` | directories as archives |
//! | `handles` | its files as descriptors |
//! | `layer` | creates a layer from a directory |

pub(crate) mod ahead;
pub(crate) mod archive;
pub(crate) mod background;
mod egress;
mod ended;
mod exec;
mod files;
pub(crate) mod handles;
pub(crate) mod image;
pub(crate) mod inner;
mod judgement;
pub(crate) mod layer;
pub(crate) mod limits;
pub(crate) mod process;
pub(crate) mod programs;
pub(crate) mod running;
mod search;
mod staging;
pub(crate) mod transfer;
pub(crate) mod view;

use std::any::Any;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use koze_guest::message::{Answer, Request};

use self::inner::{Inner, State};
use self::process::{Attached, LocalProcess, start_attached};
use self::running::Running;
use crate::engine;
use crate::errors::{destroyed_error, state_failed, unexpected_answer};
use crate::host::claim::is_claimed;
use crate::network::preview;
use koze_core::archive::{Bytes, Contents, Tar};
use koze_core::error::{Code, Error, Result};
use koze_core::sandbox::{
    Capabilities, Change, Command, Edit, Edited, EndedPrograms, Entry, LineRange, Lines, Output, Piece,
    Place, ProcessId, ProcessInfo, Program, Sandbox, Search, Searched, Stat, Status, Write as How, rejected,
};
use koze_core::transfer::pieces;
use koze_state::AttachedStreams;

/// A sandbox on this machine. It stops when its last handle and its [`Local`](super::Local) are dropped; its files are
/// kept.
#[derive(Debug, Clone)]
pub struct LocalSandbox(pub(super) Arc<Inner>);

/// Set when it is dropped.
#[derive(Default)]
pub(super) struct Cancelled(Arc<AtomicBool>);

impl Cancelled {
    pub(super) fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.0)
    }
}

impl Drop for Cancelled {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl LocalSandbox {
    /// Runs an operation on the running sandbox to completion, even if the caller stops waiting.
    pub(super) async fn with<T, F>(
        &self,
        work: impl FnOnce(Arc<Inner>, Arc<Running>) -> F + Send + 'static,
    ) -> Result<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T>> + Send,
    {
        let inner = Arc::clone(&self.0);
        let using = inner.using();
        engine::run_to_completion(async move {
            let running = inner.wake().await?;
            let done = work(inner, running).await;
            drop(using);
            done
        })
        .await
    }

    /// Starts a program whose standard streams belong to the caller.
    ///
    /// # Errors
    /// As [`Sandbox::start`], and [`Code::Unavailable`] if there are too many of them.
    pub async fn attach(&self, program: Program) -> Result<(Attached, AttachedStreams)> {
        program.check()?;
        self.with(move |inner, running| async move {
            let env = inner.environment(&running, &program.env);
            start_attached(inner, &running, program, env).await
        })
        .await
    }

    /// Returns the directory with its changes to its image, as an overlay records them. It exists after the first start. Put the sandbox
    /// to sleep before you read it.
    pub fn image_changes(&self) -> PathBuf {
        image::changes_directory(&self.0.directory)
    }

    /// Lists the processes whose output is kept, oldest first: all but attached ones.
    ///
    /// # Errors
    /// As [`Sandbox::processes`].
    pub async fn recorded_processes(&self) -> Result<Vec<ProcessInfo>> {
        let inner = Arc::clone(&self.0);
        engine::run_to_completion(async move {
            let running = inner.awake().await?;
            Ok(running.map(|running| running.processes.list_recorded()).unwrap_or_default())
        })
        .await
    }

    /// Puts it to sleep, even if it is in use: its programs end, and its files stay.
    ///
    /// # Errors
    /// [`Code::Unavailable`] if another program runs it.
    pub async fn sleep(&self) -> Result<()> {
        let inner = Arc::clone(&self.0);
        engine::run_to_completion(async move {
            inner.awake().await?;
            inner.sleep().await;
            let (key, registry) = (inner.key.clone(), Arc::clone(&inner.registry));
            // The time of the last use is informational, so errors are ignored.
            let _ = engine::run_blocking(move || registry.used(&key)).await;
            Ok(())
        })
        .await
    }

    async fn ask(&self, request: Request) -> Result<Answer> {
        self.with(|_, running| async move { Ok(running.call(&request).await?.message) }).await
    }

    /// Changes the staging records on the host while the sandbox runs. A later start would treat them as leftovers.
    async fn change_notes(&self, path: &str, change: fn(&Path, &str) -> io::Result<()>) -> Result<()> {
        let path = path.to_owned();
        let change = move |inner: Arc<Inner>, _| {
            engine::run_blocking(move || change(&inner.directory, &path).map_err(state_failed))
        };
        self.with(change).await
    }
}

impl Sandbox for LocalSandbox {
    type Process = LocalProcess;

    fn capabilities(&self) -> Capabilities {
        Capabilities { exec: true, expose: true }
    }

    async fn exec(&self, command: Command) -> Result<Output> {
        let _using = self.0.using();
        let inner = Arc::clone(&self.0);
        let running = engine::run_to_completion(async move { inner.wake().await }).await?;
        let env = self.0.environment(&running, &command.env);
        exec::run_program(running, command, env).await
    }

    async fn start(&self, program: Program) -> Result<LocalProcess> {
        program.check()?;
        self.with(move |inner, running| async move {
            let env = inner.environment(&running, &program.env);
            LocalProcess::start(inner, &running, program, env).await
        })
        .await
    }

    async fn process(&self, id: &ProcessId) -> Result<Option<LocalProcess>> {
        let (inner, id) = (Arc::clone(&self.0), id.clone());
        engine::run_to_completion(async move {
            let running = inner.awake().await?;
            Ok(running.and_then(|running| LocalProcess::find(inner, &running, &id)))
        })
        .await
    }

    async fn processes(&self) -> Result<Vec<ProcessInfo>> {
        let inner = Arc::clone(&self.0);
        engine::run_to_completion(async move {
            Ok(inner.awake().await?.map(|running| running.processes.list()).unwrap_or_default())
        })
        .await
    }

    async fn read(&self, path: Place<'_>, offset: u64, limit: u64) -> Result<Piece> {
        let place = path.owned();
        self.with(move |_, running| async move { files::read_file(&running, place, offset, limit).await })
            .await
    }

    async fn write(&self, path: Place<'_>, bytes: Vec<u8>, how: How) -> Result<u64> {
        let place = path.owned();
        self.with(move |inner, running| async move {
            let _one = inner.writes.lock().await;
            inner.has_room()?;
            match how {
                How::Replace => files::replace_file(&running, place, bytes).await,
                How::Append => files::append_to_file(&running, place, bytes, None).await,
                How::At(offset) => files::append_to_file(&running, place, bytes, Some(offset)).await,
            }
        })
        .await
    }

    async fn edit(&self, path: Place<'_>, edit: &Edit) -> Result<Edited> {
        edit.check().map_err(|why| rejected(why, path.path))?;
        let (place, edit) = (path.owned(), edit.clone());
        self.with(move |inner, running| async move {
            let _one = inner.writes.lock().await;
            inner.has_room()?;
            files::edit_file(&running, place, edit).await
        })
        .await
    }

    async fn read_lines(&self, path: Place<'_>, range: LineRange) -> Result<Lines> {
        let place = path.owned();
        // A large file is not read to its end for a caller that no longer waits.
        let cancelled = Cancelled::default();
        let flag = cancelled.flag();
        self.with(move |_, running| async move { files::read_lines(&running, place, range, flag).await })
            .await
    }

    fn archive(&self, path: Place<'_>) -> Tar {
        archive::pack_archive(Arc::clone(&self.0), path.owned())
    }

    async fn extract(&self, path: Place<'_>, tar: Bytes<'_>) -> Result<Contents> {
        archive::unpack_archive(Arc::clone(&self.0), path.owned(), tar).await
    }

    async fn search(&self, path: Place<'_>, search: &Search) -> Result<Searched> {
        search::search_tree(&self.0, path.owned(), search.clone()).await
    }

    async fn list(&self, path: Place<'_>) -> Result<Vec<Entry>> {
        // Page by page, so that other calls can run in between, and no further page is read if the caller is gone.
        let (mut listing, mut from) = (files::Listing::default(), Some(0));
        while let Some(position) = from {
            let Answer::Listed(page, next) = self.ask(Request::List(path.owned(), position)).await? else {
                return Err(unexpected_answer());
            };
            listing.add(page, path.path)?;
            from = next;
        }
        Ok(listing.into_entries())
    }

    async fn stat(&self, path: Place<'_>) -> Result<Stat> {
        match self.ask(Request::Stat(path.owned())).await? {
            Answer::Found(found) => Ok(found),
            _ => Err(unexpected_answer()),
        }
    }

    async fn change(&self, change: Change) -> Result<()> {
        self.ask(Request::Change(change)).await.map(drop)
    }

    /// Copies to another sandbox of this machine as a stream, and to any other in pieces.
    async fn copy_to<T: Sandbox>(&self, from: Place<'_>, to: &T, target: Place<'_>) -> Result<u64> {
        match (to as &dyn Any).downcast_ref::<LocalSandbox>() {
            Some(to) => transfer::copy_tree(&self.0, from.owned(), &to.0, target.owned()).await,
            None => pieces::copy(self, from, to, target).await,
        }
    }

    async fn record_staging(&self, path: &str) -> Result<()> {
        self.change_notes(path, staging::record_path).await
    }

    async fn forget_staging(&self, path: &str) -> Result<()> {
        self.change_notes(path, staging::forget_path).await
    }

    async fn take_ended_programs(&self) -> Option<EndedPrograms> {
        let inner = Arc::clone(&self.0);
        // A record that cannot be read is not worth the failure of a call that succeeded.
        engine::run_to_completion(async move { inner.take_ended_programs().await }).await.ok().flatten()
    }

    async fn expose(&self, port: u16) -> Result<String> {
        if port == 0 {
            return Err(Error::new(Code::InvalidInput, "a port must be from 1 to 65535"));
        }
        let inner = Arc::clone(&self.0);
        if matches!(*inner.state.lock().await, State::Destroyed) {
            return Err(destroyed_error());
        }
        engine::run_blocking(move || {
            let gone = || Error::new(Code::Unavailable, "the provider that serves previews is gone");
            let provider = inner.provider.upgrade().ok_or_else(gone)?;
            let token = inner.registry.token(&inner.key)?;
            preview::expose_port(&provider, port, inner.name.as_str(), &token)
        })
        .await
    }

    async fn status(&self) -> Result<Status> {
        let inner = Arc::clone(&self.0);
        engine::run_to_completion(async move {
            match &*inner.state.lock().await {
                State::Awake(running) if !running.has_ended() => return Ok(Status::Running),
                State::Destroyed => return Err(destroyed_error()),
                _ => {}
            }
            let running = is_claimed(&inner.directory);
            Ok(if running { Status::Running } else { Status::Sleeping })
        })
        .await
    }

    async fn destroy(&self) -> Result<()> {
        let inner = Arc::clone(&self.0);
        engine::run_to_completion(async move { inner.destroy().await }).await
    }
}
