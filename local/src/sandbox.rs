//! One sandbox: asleep, running or destroyed.

use std::any::Any;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Instant;

use koze_guest::message::{Answer, Request};
use tokio::sync::Mutex as AsyncMutex;

use super::ahead::{self, Ahead};
use super::claim::{claim, claimed, elsewhere};
use super::disk::Walks;
use super::launch::{Weakness, Weaknesses};
use super::network::egress;
use super::process::LocalProcess;
use super::registry::Registry;
use super::running::Running;
use super::{Shared, engine, exec, files, layout, owner, staging, transfer};
use koze_core::error::{Code, Error, Result};
use koze_core::id::{SandboxName, SessionId};
use koze_core::provider::Settings;
use koze_core::sandbox::{
    Capabilities, Command, Edit, Edited, Entry, LineRange, Lines, Output, Piece, Place, ProcessId,
    ProcessInfo, Program, Sandbox, Stat, Status, Write as How, rejected,
};
use koze_core::transfer::pieces;

/// A sandbox on this machine. It stops when its last handle and its [`Local`](super::Local) are dropped; its files are
/// kept.
#[derive(Debug, Clone)]
pub struct LocalSandbox(pub(super) Arc<Inner>);

/// The state that all handles of a sandbox share.
#[derive(Debug)]
pub(super) struct Inner {
    pub(super) key: String,
    pub(super) name: SandboxName,
    pub(super) directory: PathBuf,
    /// The weaknesses of the provider.
    state_directory: PathBuf,
    pub(super) settings: Settings,
    pub(super) registry: Arc<Registry>,
    ahead: Arc<Ahead>,
    provider: Weak<Shared>,
    names: egress::Names,
    pub(super) weak: Weaknesses,
    pub(super) state: AsyncMutex<State>,
    /// Serializes writes, because two paths may name one file.
    pub(super) writes: AsyncMutex<()>,
    /// Set by the watch while the files exceed the disk limit.
    pub(super) full: AtomicBool,
    /// Measures its files.
    pub(super) walks: Arc<Walks>,
    used: Mutex<Instant>,
    calls: AtomicUsize,
}

/// The state of a sandbox.
#[derive(Debug)]
pub(super) enum State {
    Asleep,
    Awake(Arc<Running>),
    Destroyed,
}

impl Inner {
    pub(super) fn new(key: &str, name: &SandboxName, settings: Settings, provider: &Arc<Shared>) -> Self {
        Inner {
            key: key.to_owned(),
            name: name.clone(),
            directory: layout::directory(&provider.state, key),
            state_directory: provider.state.clone(),
            settings,
            registry: Arc::clone(&provider.registry),
            ahead: Arc::clone(&provider.ahead),
            provider: Arc::downgrade(provider),
            names: Arc::clone(&provider.names),
            weak: provider.weak.clone(),
            state: AsyncMutex::new(State::Asleep),
            writes: AsyncMutex::new(()),
            full: AtomicBool::new(false),
            walks: Arc::default(),
            used: Mutex::new(Instant::now()),
            calls: AtomicUsize::new(0),
        }
    }

    /// Returns the name of its session, which is the start of its key.
    fn session(&self) -> Result<String> {
        let key = self.key.strip_suffix(self.name.as_str()).unwrap_or(&self.key);
        Ok(SessionId::from_key(key)?.session().to_owned())
    }

    /// Returns the running sandbox. Starts it if it sleeps.
    pub(super) async fn wake(&self) -> Result<Arc<Running>> {
        let mut state = self.state.lock().await;
        match &*state {
            State::Awake(running) if !running.ended() => return Ok(Arc::clone(running)),
            State::Awake(running) => running.end().await,
            State::Asleep => {}
            State::Destroyed => return Err(destroyed()),
        }
        *state = State::Asleep;
        let (key, registry, directory) =
            (self.key.clone(), Arc::clone(&self.registry), self.directory.clone());
        let used = (key.clone(), Arc::clone(&registry));
        let (settings, hostname, weak) = (self.settings.clone(), self.name.to_string(), self.weak.clone());
        let ahead = Arc::clone(&self.ahead);
        let prepared = engine::block(move || {
            if !registry.knows(&key)? {
                return Err(destroyed());
            }
            let ready = if weak.are_none() { ahead.directory(&directory) } else { None };
            let lock = if let Some(lock) = ready {
                lock
            } else {
                layout::make(&directory).map_err(state_failed)?;
                claim(&directory)?
            };
            let owner = layout::furnish(&directory, &weak).map_err(state_failed)?;
            let (memory, processors) = (layout::memory(&settings), layout::processors(&settings));
            let group = ahead.group().and_then(|group| group.limited(memory, layout::PROCESSES, processors));
            let spec = layout::spec(&directory, &hostname, &settings, owner, group.is_some(), &weak)?;
            Ok((spec, group, lock, staging::left(&directory)))
        });
        let (spec, group, lock, left) = prepared.await?;
        // Written while the guest builds the sandbox.
        let used = engine::block(move || used.1.used(&used.0));
        let (running, used) = tokio::join!(Running::start(spec, group, lock), used);
        used?;
        let running = Arc::new(running?);
        let journal = egress::Journal::new(&self.state_directory, &self.session()?, self.name.as_str());
        let (names, weak) = (Arc::clone(&self.names), self.weak.has(&Weakness::Egress));
        egress::open(&running, &self.settings.profile, names, journal, weak).await?;
        staging::sweep(&running, left).await;
        *state = State::Awake(Arc::clone(&running));
        if self.weak.are_none() {
            ahead::prepare_next(Weak::clone(&self.provider));
        }
        Ok(running)
    }

    /// Returns the running sandbox, if it runs in this program.
    async fn awake(&self) -> Result<Option<Arc<Running>>> {
        match &*self.state.lock().await {
            State::Awake(running) if !running.ended() => return Ok(Some(Arc::clone(running))),
            State::Awake(_) => return Ok(None),
            State::Destroyed => return Err(destroyed()),
            State::Asleep => {}
        }
        if claimed(&self.directory) { Err(elsewhere()) } else { Ok(None) }
    }

    /// Returns the environment of its programs, with the variables of a call.
    fn environment(&self, call: &[(String, String)]) -> Vec<(String, String)> {
        let mut env = layout::environment();
        if self.weak.has(&Weakness::Environment) {
            env.extend(std::env::vars());
        }
        env.extend(egress::environment(&self.settings.profile));
        env.extend(self.settings.profile.env.iter().chain(call).cloned());
        env
    }

    /// Puts it to sleep if it runs and was idle for long enough.
    pub(super) async fn rest(&self) {
        let mut state = self.state.lock().await;
        if let State::Awake(running) = &*state
            && (running.ended() || self.idle())
        {
            running.end().await;
            *state = State::Asleep;
            let (key, registry) = (self.key.clone(), Arc::clone(&self.registry));
            // The time of the last use is informational, so errors are ignored.
            let _ = engine::block(move || registry.used(&key)).await;
        }
    }

    /// Puts it to sleep, even if it is in use.
    pub(super) async fn sleep(&self) {
        let mut state = self.state.lock().await;
        if let State::Awake(running) = &*state {
            running.end().await;
            *state = State::Asleep;
        }
    }

    /// Returns whether a call is in progress, or was at the last check of the watch.
    pub(super) fn in_use(&self) -> bool {
        let used = *self.used.lock().unwrap_or_else(PoisonError::into_inner);
        self.calls.load(Ordering::Acquire) > 0 || used.elapsed() < super::watch::PERIOD * 2
    }

    /// Returns whether it was idle for long enough.
    pub(super) fn idle(&self) -> bool {
        let used = *self.used.lock().unwrap_or_else(PoisonError::into_inner);
        self.calls.load(Ordering::Acquire) == 0 && used.elapsed() >= self.settings.sleep_after
    }

    /// Fails if its files take more than they may.
    fn has_room(&self) -> Result<()> {
        if self.full.load(Ordering::Acquire) {
            return Err(Error::new(Code::TooLarge, "the sandbox's disk is full: delete files first"));
        }
        Ok(())
    }

    /// Returns the running sandbox, unless it sleeps or is changing its state.
    pub(super) fn running(&self) -> Option<Arc<Running>> {
        match &*self.state.try_lock().ok()? {
            State::Awake(running) if !running.ended() => Some(Arc::clone(running)),
            _ => None,
        }
    }

    /// Counts as a use while it is held.
    pub(super) fn using(self: &Arc<Self>) -> Use {
        self.calls.fetch_add(1, Ordering::AcqRel);
        Use(Arc::clone(self))
    }

    async fn destroy(&self) -> Result<()> {
        let mut state = self.state.lock().await;
        match &*state {
            State::Awake(running) => running.end().await,
            State::Asleep => {}
            State::Destroyed => return Err(destroyed()),
        }
        *state = State::Asleep;
        let (key, registry, directory) =
            (self.key.clone(), Arc::clone(&self.registry), self.directory.clone());
        let walks = Arc::clone(&self.walks);
        engine::block(move || {
            let _none = walks.hold();
            layout::make(&directory).map_err(state_failed)?;
            let lock = claim(&directory)?;
            registry.leave(&key)?;
            owner::release(&directory);
            let gone = super::gone_name(&directory);
            std::fs::rename(&directory, &gone).map_err(state_failed)?;
            drop(lock);
            super::clear(&gone).map_err(state_failed)
        })
        .await?;
        *state = State::Destroyed;
        Ok(())
    }
}

/// Set when it is dropped.
#[derive(Default)]
struct Cancelled(Arc<AtomicBool>);

impl Drop for Cancelled {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// A call in progress, or a request to a port.
pub(super) struct Use(Arc<Inner>);

impl Drop for Use {
    fn drop(&mut self) {
        *self.0.used.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        self.0.calls.fetch_sub(1, Ordering::AcqRel);
    }
}

pub(super) fn state_failed(error: io::Error) -> Error {
    // Omit the path, which would be the host's.
    Error::new(Code::Internal, format!("the sandbox's state cannot be used: {error}")).with_source(error)
}

fn destroyed() -> Error {
    Error::new(Code::NotFound, "the sandbox was destroyed")
}

impl LocalSandbox {
    /// Runs an operation on the running sandbox to completion, even if the caller stops waiting.
    async fn with<T, F>(&self, work: impl FnOnce(Arc<Inner>, Arc<Running>) -> F + Send + 'static) -> Result<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T>> + Send,
    {
        let inner = Arc::clone(&self.0);
        let using = inner.using();
        engine::run(async move {
            let running = inner.wake().await?;
            let done = work(inner, running).await;
            drop(using);
            done
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
            engine::block(move || change(&inner.directory, &path).map_err(state_failed))
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
        let running = engine::run(async move { inner.wake().await }).await?;
        let env = self.0.environment(&command.env);
        exec::exec(running, command, env).await
    }

    async fn start(&self, program: Program) -> Result<LocalProcess> {
        program.check()?;
        self.with(move |inner, running| async move {
            let env = inner.environment(&program.env);
            LocalProcess::start(inner, &running, program, env).await
        })
        .await
    }

    async fn process(&self, id: &ProcessId) -> Result<Option<LocalProcess>> {
        let (inner, id) = (Arc::clone(&self.0), id.clone());
        engine::run(async move {
            let running = inner.awake().await?;
            Ok(running.and_then(|running| LocalProcess::find(inner, &running, &id)))
        })
        .await
    }

    async fn processes(&self) -> Result<Vec<ProcessInfo>> {
        let inner = Arc::clone(&self.0);
        engine::run(async move {
            Ok(inner.awake().await?.map(|running| running.processes.list()).unwrap_or_default())
        })
        .await
    }

    async fn read(&self, path: Place<'_>, offset: u64, limit: u64) -> Result<Piece> {
        let place = path.owned();
        self.with(move |_, running| async move { files::read(&running, place, offset, limit).await }).await
    }

    async fn write(&self, path: Place<'_>, bytes: Vec<u8>, how: How) -> Result<u64> {
        let place = path.owned();
        self.with(move |inner, running| async move {
            let _one = inner.writes.lock().await;
            inner.has_room()?;
            match how {
                How::Replace => files::replace(&running, place, bytes).await,
                How::Append => files::append(&running, place, bytes).await,
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
            files::edit(&running, place, edit).await
        })
        .await
    }

    async fn read_lines(&self, path: Place<'_>, range: LineRange) -> Result<Lines> {
        let place = path.owned();
        // A large file is not read to its end for a caller that no longer waits.
        let cancelled = Cancelled::default();
        let flag = Arc::clone(&cancelled.0);
        self.with(move |_, running| async move { files::read_lines(&running, place, range, flag).await })
            .await
    }

    async fn list(&self, path: Place<'_>) -> Result<Vec<Entry>> {
        // Page by page, so that other calls can run in between, and no further page is read if the caller is gone.
        let (mut listing, mut from) = (files::Listing::default(), Some(0));
        while let Some(position) = from {
            let Answer::Listed(page, next) = self.ask(Request::List(path.owned(), position)).await? else {
                return Err(files::odd());
            };
            listing.add(page, path.path)?;
            from = next;
        }
        Ok(listing.into_entries())
    }

    async fn stat(&self, path: Place<'_>) -> Result<Stat> {
        match self.ask(Request::Stat(path.owned())).await? {
            Answer::Found(found) => Ok(found),
            _ => Err(files::odd()),
        }
    }

    async fn make_dir(&self, path: Place<'_>) -> Result<()> {
        self.ask(Request::MakeDir(path.owned())).await.map(drop)
    }

    async fn make_link(&self, path: Place<'_>, target: &str) -> Result<()> {
        self.ask(Request::MakeLink(path.owned(), target.to_owned())).await.map(drop)
    }

    async fn set_mode(&self, path: Place<'_>, mode: u32) -> Result<()> {
        self.ask(Request::SetMode(path.owned(), mode)).await.map(drop)
    }

    async fn remove(&self, path: Place<'_>) -> Result<()> {
        self.ask(Request::Remove(path.owned())).await.map(drop)
    }

    async fn rename(&self, from: Place<'_>, to: Place<'_>) -> Result<()> {
        self.ask(Request::Rename(from.owned(), to.owned())).await.map(drop)
    }

    /// Copies to another sandbox of this machine as a stream, and to any other in pieces.
    async fn copy_to<T: Sandbox>(&self, from: Place<'_>, to: &T, target: Place<'_>) -> Result<u64> {
        match (to as &dyn Any).downcast_ref::<LocalSandbox>() {
            Some(to) => transfer::copy(&self.0, from.owned(), &to.0, target.owned()).await,
            None => pieces::copy(self, from, to, target).await,
        }
    }

    async fn record_staging(&self, path: &str) -> Result<()> {
        self.change_notes(path, staging::note).await
    }

    async fn forget_staging(&self, path: &str) -> Result<()> {
        self.change_notes(path, staging::forget).await
    }

    async fn expose(&self, port: u16) -> Result<String> {
        if port == 0 {
            return Err(Error::new(Code::InvalidInput, "a port must be from 1 to 65535"));
        }
        let inner = Arc::clone(&self.0);
        if matches!(*inner.state.lock().await, State::Destroyed) {
            return Err(destroyed());
        }
        engine::block(move || {
            let gone = || Error::new(Code::Unavailable, "the provider that serves previews is gone");
            let provider = inner.provider.upgrade().ok_or_else(gone)?;
            let token = inner.registry.token(&inner.key)?;
            provider.previews.url(&provider, port, inner.name.as_str(), &token)
        })
        .await
    }

    async fn status(&self) -> Result<Status> {
        let inner = Arc::clone(&self.0);
        engine::run(async move {
            match &*inner.state.lock().await {
                State::Awake(running) if !running.ended() => return Ok(Status::Running),
                State::Destroyed => return Err(destroyed()),
                _ => {}
            }
            let running = claimed(&inner.directory);
            Ok(if running { Status::Running } else { Status::Sleeping })
        })
        .await
    }

    async fn destroy(&self) -> Result<()> {
        let inner = Arc::clone(&self.0);
        engine::run(async move { inner.destroy().await }).await
    }
}
