//! The state of one sandbox: asleep, running or destroyed.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use koze_core::error::{Code, Error, Result};
use koze_core::id::SandboxId;
use koze_core::provider::Profile;
use koze_core::sandbox::{Change, EndedPrograms, Place, ProcessId};
use koze_core::time::now;
use koze_guest::request::Request;
use serde::de::IgnoredAny;
use tokio::sync::{Mutex as AsyncMutex, Semaphore};
use tokio::task::JoinSet;

use super::programs::list_programs;
use crate::api::{Api, Image};
use crate::container;
use crate::guest::{Connection, closed_error};
use crate::network::Network;
use crate::preview;
use crate::record::{Claim, Record};
use crate::runtime;
use crate::shared::Shared;

/// How often a running sandbox is looked at.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);
/// How often the engine is asked whether the container of a sandbox with calls is paused.
const PAUSE_CHECK: Duration = Duration::from_secs(5);
/// How long the guest has to list its processes before it is stopped.
const LIST_TIMEOUT: Duration = Duration::from_secs(5);

/// How long to wait before a container is started again that stopped at once.
const RETRY_PAUSE: Duration = Duration::from_millis(500);

/// The state that all handles of a sandbox share.
#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) id: SandboxId,
    pub(crate) shared: Arc<Shared>,
    /// The name of its container.
    pub(crate) container: String,
    record: Mutex<Record>,
    pub(crate) state: AsyncMutex<State>,
    /// How many calls use it.
    calls: AtomicUsize,
    used: Mutex<Instant>,
}

/// The state of a sandbox.
#[derive(Debug)]
pub(crate) enum State {
    Asleep,
    Running(Arc<Running>),
    Destroyed,
}

/// A running sandbox. When it is dropped, the guest exits and the container stops.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) connection: Arc<Connection>,
    pub(crate) network: Network,
    /// The permits for connections to its servers.
    pub(crate) previews: Arc<Semaphore>,
    /// How many requests were refused before each process started that has not ended.
    refused_before: Mutex<HashMap<ProcessId, usize>>,
    /// Ends with it.
    _proxy: JoinSet<()>,
    api: Api,
    _claim: Claim,
}

/// Keeps a sandbox awake.
#[derive(Debug)]
pub(crate) struct Use(Arc<Inner>);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Running {
    /// Records that a process started when this many requests were refused.
    pub(crate) fn add_process(&self, id: ProcessId, refused: usize) {
        lock(&self.refused_before).insert(id, refused);
    }

    /// Returns why a process with this exit code may have failed, once: the hosts that were refused since it started.
    pub(crate) fn take_note(&self, id: &ProcessId, exit_code: i32) -> Option<String> {
        let refused_before = lock(&self.refused_before).remove(id)?;
        if exit_code == 0 { None } else { self.network.refusals.describe_after(refused_before) }
    }
}

impl Inner {
    pub(crate) fn new(id: SandboxId, record: Record, shared: Arc<Shared>) -> Self {
        Inner {
            container: shared.container_name(&id),
            id,
            shared,
            record: Mutex::new(record),
            state: AsyncMutex::new(State::Asleep),
            calls: AtomicUsize::new(0),
            used: Mutex::new(Instant::now()),
        }
    }

    /// Returns what is recorded about it.
    pub(crate) fn record(&self) -> MutexGuard<'_, Record> {
        lock(&self.record)
    }

    /// Changes what is recorded about it.
    pub(crate) fn change_record(&self, change: impl FnOnce(&mut Record)) -> Result<()> {
        let mut record = self.record();
        change(&mut record);
        self.shared.records.write(&self.id, &record)
    }

    /// Keeps the sandbox awake until the result is dropped.
    pub(crate) fn using(self: &Arc<Self>) -> Use {
        self.calls.fetch_add(1, Ordering::AcqRel);
        Use(Arc::clone(self))
    }

    /// Returns whether calls use it, and how long ago the last one ended.
    pub(crate) fn last_use(&self) -> (bool, Duration) {
        (self.calls.load(Ordering::Acquire) > 0, lock(&self.used).elapsed())
    }

    /// Creates the container of a new sandbox, and starts it.
    pub(crate) async fn start_new(self: &Arc<Self>) -> Result<()> {
        let mut state = self.state.lock().await;
        let api = self.shared.api().await?;
        self.create_container(&api).await?;
        self.change_record(|record| record.is_complete = true)?;
        *state = State::Running(self.start(api).await?);
        Ok(())
    }

    async fn create_container(&self, api: &Api) -> Result<()> {
        // Cloned, because the lock is not held while the engine works.
        let settings = self.record().settings.clone();
        let reference = settings.profile.stored_name();
        let image = provide_image(api, &settings.profile).await?;
        self.remove_leftover(api).await?;
        let body = container::create_body(&self.id, &settings, reference, &self.shared.state);
        api.create(&self.container, body).await?;
        let guest = container::pack_guest(self.shared.guest, &image.user)?;
        if let Err(error) = api.upload(&self.container, guest).await {
            // The first error is the one to report.
            let _ = api.remove(&self.container).await;
            return Err(error);
        }
        Ok(())
    }

    /// Removes the container that an earlier creation left behind. One of another program stays.
    async fn remove_leftover(&self, api: &Api) -> Result<()> {
        let Some(found) = api.inspect(&self.container).await? else { return Ok(()) };
        if !container::is_of(&found.labels, &self.id, &self.shared.state) {
            let (kind, name) = (api.kind(), &self.container);
            let message = format!(
                "{kind} has a container `{name}` that koze did not create: rename it with `{kind} rename {name} NAME`"
            );
            return Err(Error::new(Code::AlreadyExists, message));
        }
        api.remove(&self.container).await
    }

    /// Returns the running sandbox, and starts it if necessary.
    pub(crate) async fn wake(self: &Arc<Self>) -> Result<Arc<Running>> {
        let mut state = self.state.lock().await;
        match &*state {
            State::Destroyed => return Err(destroyed_error()),
            State::Running(running) if !running.connection.is_closed() => return Ok(Arc::clone(running)),
            State::Running(_) | State::Asleep => {}
        }
        // The claim of a sandbox whose container has stopped ends first.
        *state = State::Asleep;
        let api = self.shared.api().await?;
        let running = self.start(api).await?;
        *state = State::Running(Arc::clone(&running));
        Ok(running)
    }

    /// Starts the container, and connects to its guest.
    async fn start(self: &Arc<Self>, api: Api) -> Result<Arc<Running>> {
        let claim = self.shared.records.claim(&self.id)?;
        self.check_startable(&api).await?;
        // Cloned, because the lock is not held meanwhile.
        let profile = self.record().settings.profile.clone();
        let network = self.shared.networks.prepare(&self.id, &profile).await?;
        if let Some((file, path)) = network.certificates() {
            api.upload(&self.container, container::pack_certificates(file, path)?).await?;
        }
        let connection = Arc::new(self.connect(&api).await?);
        let proxy = self.shared.networks.start_proxy(&self.id, &network, &connection).await?;
        let running = Arc::new(Running {
            connection,
            network,
            previews: Arc::new(Semaphore::new(preview::MAX_CONNECTIONS)),
            refused_before: Mutex::default(),
            _proxy: proxy,
            api,
            _claim: claim,
        });
        self.remove_staging(&running).await?;
        self.change_record(|record| record.used = now())?;
        *lock(&self.used) = Instant::now();
        runtime::handle()?.spawn(watch(Arc::downgrade(self), Arc::downgrade(&running)));
        Ok(running)
    }

    /// Starts the container, and connects to its guest. Tries again once: podman may still be cleaning up after a container that has just
    /// stopped, and then stops the new run, too.
    async fn connect(&self, api: &Api) -> Result<Connection> {
        if let Ok(connection) = self.connect_once(api).await {
            return Ok(connection);
        }
        tokio::time::sleep(RETRY_PAUSE).await;
        self.check_startable(api).await?;
        self.connect_once(api).await
    }

    async fn connect_once(&self, api: &Api) -> Result<Connection> {
        let streams = api.attach(&self.container).await?;
        let opening = Connection::begin(streams)?;
        api.start(&self.container).await?;
        match opening.finish().await {
            Ok(connection) => Ok(connection),
            Err((error, log)) => Err(self.explain(api, error, &log).await),
        }
    }

    /// Checks that the container exists and does not run. One that a killed process left running is killed: its guest serves
    /// only the process that started it.
    async fn check_startable(&self, api: &Api) -> Result<()> {
        let Some(found) = api.inspect(&self.container).await? else {
            let (kind, name) = (api.kind(), &self.id.name);
            let message = format!(
                "the container of the sandbox `{name}` was removed from {kind} by another program, and its files with it: destroy the sandbox, and create it again"
            );
            return Err(Error::new(Code::NotFound, message));
        };
        if found.state.paused == Some(true) {
            return Err(self.paused_error(api));
        }
        if found.state.running == Some(true) {
            // If it is ending by itself, it cannot be killed.
            let killed = api.kill(&self.container).await;
            api.wait(&self.container).await.or(killed)?;
            api.wait(&self.container).await?;
        }
        Ok(())
    }

    fn paused_error(&self, api: &Api) -> Error {
        let (kind, container, name) = (api.kind(), &self.container, &self.id.name);
        let message = format!(
            "the container of the sandbox `{name}` was paused by another program: run `{kind} unpause {container}`"
        );
        Error::new(Code::Unavailable, message)
    }

    /// Adds to an error what the engine and the guest's log say about the container.
    async fn explain(&self, api: &Api, error: Error, log: &str) -> Error {
        let mut message = error.message.clone();
        let state = api.inspect(&self.container).await.ok().flatten().map(|found| found.state);
        if let Some(state) = state {
            if state.oom_killed == Some(true) {
                message.push_str(". It ran out of memory");
            } else if let Some(code) = state.exit_code.filter(|_| state.running != Some(true)) {
                let _ = write!(message, ". Its exit code is {code}");
            }
        }
        if !log.is_empty() {
            let _ = write!(message, ". Its log: {log}");
        }
        Error::new(error.code, message).with_source(error)
    }

    /// Removes what a killed process was about to write.
    async fn remove_staging(&self, running: &Running) -> Result<()> {
        let paths = std::mem::take(&mut self.record().staging);
        for path in &paths {
            let place = Place { root: "/", path }.owned();
            let call = running.connection.call(&Request::Change(Change::Remove(place)))?;
            match call.finish::<IgnoredAny>().await {
                Err(error) if error.code == Code::Unavailable => return Err(error),
                // It may not exist.
                _ => {}
            }
        }
        if paths.is_empty() { Ok(()) } else { self.change_record(|_| ()) }
    }

    /// Returns the running sandbox, if it runs. Starts nothing.
    ///
    /// # Errors
    /// [`Code::Unavailable`] if another process runs it.
    pub(crate) async fn awake(&self) -> Result<Option<Arc<Running>>> {
        match &*self.state.lock().await {
            State::Running(running) if !running.connection.is_closed() => Ok(Some(Arc::clone(running))),
            State::Destroyed => Err(destroyed_error()),
            _ => Ok(None),
        }
    }

    /// Returns the running sandbox if nothing is changing its state.
    pub(crate) fn running(&self) -> Option<Arc<Running>> {
        match &*self.state.try_lock().ok()? {
            State::Running(running) if !running.connection.is_closed() => Some(Arc::clone(running)),
            _ => None,
        }
    }

    /// Puts it to sleep if it runs: its programs end, and its files stay.
    pub(crate) async fn sleep(&self) -> Result<()> {
        let mut state = self.state.lock().await;
        let State::Running(running) = &*state else { return Ok(()) };
        let running = Arc::clone(running);
        *state = State::Asleep;
        self.stop(&running).await
    }

    /// Stops the container of a sandbox whose state is locked.
    async fn stop(&self, running: &Running) -> Result<()> {
        let programs = tokio::time::timeout(LIST_TIMEOUT, list_programs(&running.connection)).await;
        let ended = EndedPrograms::new(&programs.unwrap_or_default());
        self.change_record(|record| {
            record.used = now();
            if let Some(ended) = ended {
                record.ended = Some(ended.after(record.ended.take()));
            }
        })?;
        running.connection.end(asleep_error());
        running.api.stop(&self.container).await
    }

    /// Stops the container, and deletes it with its files and its record.
    pub(crate) async fn destroy(&self) -> Result<()> {
        let mut state = self.state.lock().await;
        if matches!(*state, State::Destroyed) {
            return Ok(());
        }
        let claim = match &*state {
            State::Running(running) => {
                running.connection.end(destroyed_error());
                None
            }
            _ => Some(self.shared.records.claim(&self.id)?),
        };
        self.shared.api().await?.remove(&self.container).await?;
        self.shared.records.remove(&self.id)?;
        self.shared.forget(&self.id);
        *state = State::Destroyed;
        drop(claim);
        Ok(())
    }
}

impl Drop for Use {
    fn drop(&mut self) {
        *lock(&self.0.used) = Instant::now();
        self.0.calls.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Puts a running sandbox to sleep when it was idle for long enough, and ends its calls if its container is paused.
async fn watch(sandbox: Weak<Inner>, running: Weak<Running>) {
    let mut last_check = Instant::now();
    loop {
        tokio::time::sleep(LOOK_INTERVAL).await;
        let (Some(sandbox), Some(running)) = (sandbox.upgrade(), running.upgrade()) else { return };
        if running.connection.is_closed() {
            return;
        }
        let (is_used, idle) = sandbox.last_use();
        if !is_used && idle >= sandbox.record().settings.sleep_after {
            // If the engine fails, the connection has ended all the same, and with it the guest.
            let _ = sandbox.sleep().await;
            return;
        }
        if is_used && last_check.elapsed() >= PAUSE_CHECK {
            last_check = Instant::now();
            if let Some(reason) = sandbox.why_silent(&running.api).await {
                running.connection.end(reason);
                return;
            }
        }
    }
}

impl Inner {
    /// Returns why the container cannot answer, if the engine says that it cannot.
    async fn why_silent(&self, api: &Api) -> Option<Error> {
        match api.inspect(&self.container).await {
            Ok(Some(found)) if found.state.paused == Some(true) => Some(self.paused_error(api)),
            Ok(Some(found)) if found.state.running == Some(false) => Some(closed_error()),
            Ok(None) => Some(closed_error()),
            // An engine that restarts may leave its containers running.
            _ => None,
        }
    }

    /// Explains why a call lost its connection.
    pub(crate) async fn explain_end(&self, running: &Running, error: Error) -> Error {
        if error.code != Code::Unavailable || !running.connection.is_closed() || error != closed_error() {
            return error;
        }
        let message = match running.api.inspect(&self.container).await {
            Ok(None) => {
                "the container of this sandbox was removed during the call, and its files with it: destroy the sandbox, and create it again".to_owned()
            }
            Ok(Some(found)) if found.state.oom_killed == Some(true) => {
                "the container of this sandbox ran out of memory during the call and was killed: its files are kept, its programs have ended".to_owned()
            }
            Ok(Some(_)) => return error,
            Err(unreachable) => format!("the connection to the sandbox ended during the call: {}", unreachable.message),
        };
        Error::new(Code::Unavailable, message).with_source(error)
    }
}

/// The error of a sandbox that was destroyed.
pub(crate) fn destroyed_error() -> Error {
    Error::new(Code::NotFound, "this sandbox was destroyed: create a new one")
}

fn asleep_error() -> Error {
    Error::new(Code::Unavailable, "the sandbox was put to sleep during the call: the next call wakes it")
}

/// Returns the image of a profile's sandboxes. The engine pulls one that it does not have.
async fn provide_image(api: &Api, profile: &Profile) -> Result<Image> {
    let (reference, is_built) = (profile.stored_name(), profile.stored.is_some());
    match api.find_image(reference).await? {
        // An emulating engine may have it for its own architecture. It gets that of the guest, too.
        Some(image) if !is_built && api.is_emulating() && !container::is_of_guest(&image.architecture) => {}
        Some(image) => {
            container::check_architecture(reference, &image.architecture)?;
            return Ok(image);
        }
        None if is_built => {
            let (kind, file) = (api.kind(), &profile.reference);
            let message = format!(
                "the store of {kind} does not have the image that is built from `{file}`: run `{kind} build --tag {reference} --file {file} .` in the project"
            );
            return Err(Error::new(Code::Unavailable, message));
        }
        None => {}
    }
    api.pull(reference).await?;
    let missing =
        || Error::new(Code::Unavailable, format!("the image `{reference}` was removed after it was pulled"));
    let image = api.find_image(reference).await?.ok_or_else(missing)?;
    // An engine that has both describes its own.
    if !api.is_emulating() {
        container::check_architecture(reference, &image.architecture)?;
    }
    Ok(image)
}
