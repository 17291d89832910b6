//! The state of one sandbox: asleep, running or destroyed.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use tokio::sync::Mutex as AsyncMutex;

use super::ahead::{self, Ahead};
use super::ended;
use super::image::SandboxImage;
use super::process::end_contexts;
use super::running::Running;
use super::{limits, staging, view};
use crate::cgroup::Group;
use crate::errors::{destroyed_error, disk_full, state_failed};
use crate::host::claim::{claim_sandbox, claimed_error, is_claimed};
use crate::host::disk::{self, Walks};
use crate::host::registry::Registry;
use crate::host::{layout, owner, removal};
use crate::launch::BindKind;
use crate::layers::{Base, Layers};
use crate::network;
use crate::network::preview::OwnPreviews;
use crate::weakness::{Weakness, Weaknesses};
use crate::{Shared, engine, store};
use koze_core::egress::Policy;
use koze_core::error::{Code, Error, Result};
use koze_core::id::{SandboxName, SessionId};
use koze_core::provider::Settings;
use koze_core::sandbox::EndedPrograms;
use koze_core::script::Egress;
use koze_egress::{Internet, Reach, Refusals};
use koze_state::{EgressJournal, Reached};

/// The state that all handles of a sandbox share.
#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) key: String,
    pub(crate) name: SandboxName,
    pub(crate) directory: PathBuf,
    /// The state directory of the provider.
    pub(super) state_directory: PathBuf,
    pub(crate) settings: Settings,
    role: Role,
    pub(crate) registry: Arc<Registry>,
    ahead: Arc<Ahead>,
    pub(crate) provider: Weak<Shared>,
    pub(super) internet: Arc<Internet>,
    pub(crate) weak: Weaknesses,
    pub(crate) state: AsyncMutex<State>,
    /// Serializes writes, because two paths may name one file.
    pub(crate) writes: AsyncMutex<()>,
    /// Set by the watch while the files exceed the disk limit.
    pub(crate) full: AtomicBool,
    /// Measures its files.
    pub(crate) walks: Arc<Walks>,
    /// How many bytes its files took when the watch last measured them; [`disk::TOO_LARGE`] before.
    pub(crate) disk_used: AtomicU64,
    used: Mutex<Instant>,
    calls: AtomicUsize,
    /// Whether there is a record of programs that ended with it.
    has_ended_programs: AtomicBool,
}

/// What a sandbox is for.
#[derive(Debug)]
enum Role {
    /// It is one of a session, and the registry knows it.
    OfSession,
    /// It runs the browser of an agent.
    Browser(BrowserRole),
}

/// What the sandbox of a browser has in place of a profile.
#[derive(Debug)]
pub(crate) struct BrowserRole {
    /// The agent.
    pub(crate) agent: SessionId,
    /// The hosts that it may reach.
    pub(crate) egress: Egress,
    /// Its refused requests.
    pub(crate) refusals: Arc<Refusals>,
    /// The previews that it may open.
    pub(crate) previews: Arc<OwnPreviews>,
}

/// The state of a sandbox.
#[derive(Debug)]
pub(crate) enum State {
    Asleep,
    Awake(Arc<Running>),
    Destroyed,
}

impl Inner {
    pub(crate) fn new(key: &str, name: &SandboxName, settings: Settings, provider: &Arc<Shared>) -> Self {
        let directory = layout::sandbox_directory(&provider.state, key);
        Inner {
            key: key.to_owned(),
            name: name.clone(),
            has_ended_programs: AtomicBool::new(ended::has_record(&directory)),
            directory,
            state_directory: provider.state.clone(),
            settings,
            role: Role::OfSession,
            registry: Arc::clone(&provider.registry),
            ahead: Arc::clone(&provider.ahead),
            provider: Arc::downgrade(provider),
            internet: Arc::clone(&provider.internet),
            weak: provider.weak.clone(),
            state: AsyncMutex::new(State::Asleep),
            writes: AsyncMutex::new(()),
            full: AtomicBool::new(false),
            walks: Arc::default(),
            disk_used: AtomicU64::new(disk::TOO_LARGE),
            used: Mutex::new(Instant::now()),
            calls: AtomicUsize::new(0),
        }
    }

    /// Creates the sandbox of a browser.
    pub(crate) fn browser(
        name: &SandboxName,
        settings: Settings,
        browser: BrowserRole,
        provider: &Arc<Shared>,
    ) -> Self {
        let key = browser.agent.key();
        let directory = layout::sandbox_directory(&provider.state.join("browsers"), &key);
        Inner { directory, role: Role::Browser(browser), ..Inner::new(&key, name, settings, provider) }
    }

    /// Returns whether it is a sandbox of a session.
    pub(crate) fn is_of(&self, session: &SessionId) -> bool {
        matches!(self.role, Role::OfSession)
            && self.key.strip_suffix(self.name.as_str()).is_some_and(|key| key == session.key())
    }

    /// Returns the name of its session, which is the start of its key.
    pub(super) fn session(&self) -> Result<String> {
        let key = self.key.strip_suffix(self.name.as_str()).unwrap_or(&self.key);
        Ok(SessionId::from_key(key)?.session().to_owned())
    }

    /// Returns the running sandbox. Starts it if it sleeps.
    pub(crate) async fn wake(&self) -> Result<Arc<Running>> {
        self.start(false).await
    }

    /// Starts a sandbox that was just created, and chooses its image.
    pub(crate) async fn start_new(&self) -> Result<Arc<Running>> {
        self.start(true).await
    }

    async fn start(&self, is_new: bool) -> Result<Arc<Running>> {
        let mut state = self.state.lock().await;
        match &*state {
            State::Awake(running) if !running.has_ended() => return Ok(Arc::clone(running)),
            State::Awake(running) => {
                running.end().await;
                self.record_ended_programs(ended::running_programs(running)).await;
            }
            State::Asleep => {}
            State::Destroyed => return Err(destroyed_error()),
        }
        *state = State::Asleep;
        if let Role::Browser(browser) = &self.role {
            let running = Arc::new(self.start_browser(browser).await?);
            *state = State::Awake(Arc::clone(&running));
            return Ok(running);
        }
        let (key, registry, directory) =
            (self.key.clone(), Arc::clone(&self.registry), self.directory.clone());
        let used = (key.clone(), Arc::clone(&registry));
        let (settings, hostname, weak) = (self.settings.clone(), self.name.to_string(), self.weak.clone());
        let ahead = Arc::clone(&self.ahead);
        let layers = Layers::new(&self.state_directory);
        let provider = self.provider.upgrade();
        let policy = Policy::of(&self.settings.profile)?
            .map(|policy| policy.weakened(self.weak.has(&Weakness::Egress)));
        let inspection = match (&policy, &provider) {
            (Some(policy), Some(provider)) if policy.inspects_any() => {
                Some(self.inspect(policy, provider).await?)
            }
            _ => None,
        };
        let is_redirected = policy.is_some() && !self.weak.has(&Weakness::Network);
        let bundle = inspection.as_ref().map(|inspection| inspection.bundle().to_owned());
        let is_build = provider.as_ref().is_some_and(|provider| provider.builds.load(Ordering::Relaxed));
        let images = provider.and_then(|provider| provider.images.get().cloned());
        let prepared = engine::run_blocking(move || {
            if !registry.knows(&key)? {
                return Err(destroyed_error());
            }
            let ready = if weak.are_none() { ahead.directory(&directory) } else { None };
            let lock = if let Some(lock) = ready {
                lock
            } else {
                layout::create_missing_parts(&directory).map_err(state_failed)?;
                claim_sandbox(&directory)?
            };
            let owner = layout::create_own_directories(&directory, &weak).map_err(state_failed)?;
            let image = if is_new {
                SandboxImage::choose(&directory, images.as_deref(), &settings.profile)?
            } else {
                SandboxImage::of(&directory)?
            };
            let image = image.map(SandboxImage::hold).transpose()?;
            let (memory, processors) = (limits::memory_limit(&settings), limits::processor_limit(&settings));
            let group = ahead.group().and_then(|group| group.limited(memory, limits::PROCESSES, processors));
            let group_of = group.as_ref();
            let image_of = image.as_ref().map(|held| &held.image);
            let mut spec =
                view::sandbox_spec(&directory, &hostname, &settings, owner, group_of, &weak, image_of)?;
            if is_build && image.is_some() {
                spec.binds.retain(|bind| bind.kind != BindKind::Writable);
            }
            if let Some(base) = Base::of(&directory)? {
                let overlay = base.overlay(&layers, &directory, owner)?;
                // In place of the directory itself.
                spec.binds.retain(|bind| bind.target != overlay.target);
                spec.overlay = Some(overlay);
            }
            if is_redirected {
                view::redirect_connections(&mut spec);
            }
            if let Some(bundle) = bundle {
                view::bind_certificates(&mut spec, &bundle);
            }
            // Another program may have put it to sleep meanwhile.
            let has_ended = ended::has_record(&directory);
            Ok((spec, group, lock, image, staging::left_records(&directory), has_ended))
        });
        let (spec, group, lock, image, left, has_ended) = prepared.await?;
        self.has_ended_programs.fetch_or(has_ended, Ordering::AcqRel);
        // Written while the guest builds the sandbox.
        let used = engine::run_blocking(move || used.1.used(&used.0));
        let (running, used) = tokio::join!(Running::start(spec, group, lock, image), used);
        used?;
        let running = Arc::new(running?);
        if let Some(policy) = policy {
            self.start_network(&running, policy, inspection).await?;
        }
        staging::remove_recorded(&running, left).await;
        *state = State::Awake(Arc::clone(&running));
        if self.weak.are_none() {
            ahead::prepare_next(Weak::clone(&self.provider));
        }
        Ok(running)
    }

    /// Starts the sandbox of a browser, which has no files that outlive it.
    async fn start_browser(&self, browser: &BrowserRole) -> Result<Running> {
        let policy = Policy::of_browser(&browser.egress)?;
        let (directory, settings) = (self.directory.clone(), self.settings.clone());
        let prepared = engine::run_blocking(move || {
            layout::create_missing_parts(&directory).map_err(state_failed)?;
            let lock = claim_sandbox(&directory).map_err(|error| match error.code {
                Code::Unavailable => in_another_program(),
                _ => error,
            })?;
            let owner = owner::settle_owner(&directory, &Weaknesses::default()).map_err(state_failed)?;
            let (memory, processors) = (limits::memory_limit(&settings), limits::processor_limit(&settings));
            let group = Group::new().and_then(|group| group.limited(memory, limits::PROCESSES, processors));
            let spec = view::browser_spec(&settings, owner, group.as_ref())?;
            Ok((spec, group, lock))
        });
        let (spec, group, lock) = prepared.await?;
        let running = Running::start(spec, group, lock, None).await?;
        let journal = EgressJournal::new(&self.state_directory, browser.agent.session(), Reached::BROWSER);
        let reach = Reach::new(policy, Arc::clone(&self.internet), journal)
            .with_refusals(Arc::clone(&browser.refusals))
            .with_previews(browser.previews.clone());
        network::start_proxy(&running, reach).await?;
        Ok(running)
    }

    /// Returns the running sandbox, if it runs in this program.
    pub(crate) async fn awake(&self) -> Result<Option<Arc<Running>>> {
        match &*self.state.lock().await {
            State::Awake(running) if !running.has_ended() => return Ok(Some(Arc::clone(running))),
            State::Awake(_) => return Ok(None),
            State::Destroyed => return Err(destroyed_error()),
            State::Asleep => {}
        }
        if is_claimed(&self.directory) { Err(claimed_error()) } else { Ok(None) }
    }

    /// Returns the environment of its programs, with the variables of a call.
    pub(crate) fn environment(&self, running: &Running, call: &[(String, String)]) -> Vec<(String, String)> {
        let mut env =
            running.image.as_ref().map_or_else(view::program_environment, |held| held.image.environment());
        if running.limited {
            env.push(("OMP_NUM_THREADS".to_owned(), limits::thread_count(&self.settings).to_string()));
        }
        if self.weak.has(&Weakness::Environment) {
            env.extend(std::env::vars());
        }
        env.extend(koze_egress::proxy_environment(&self.settings.profile));
        env.extend_from_slice(running.egress_variables());
        env.extend(self.settings.profile.env.iter().chain(call).cloned());
        env
    }

    /// Puts it to sleep if it runs and was idle for long enough.
    pub(crate) async fn rest(&self) {
        let mut state = self.state.lock().await;
        if let State::Awake(running) = &*state
            && (running.has_ended() || self.idle())
        {
            self.end_running(running).await;
            *state = State::Asleep;
            let (key, registry) = (self.key.clone(), Arc::clone(&self.registry));
            // The time of the last use is informational, so errors are ignored.
            let _ = engine::run_blocking(move || registry.used(&key)).await;
        }
    }

    /// Puts it to sleep, even if it is in use.
    pub(crate) async fn sleep(&self) {
        let mut state = self.state.lock().await;
        if let State::Awake(running) = &*state {
            self.end_running(running).await;
            *state = State::Asleep;
        }
    }

    /// Ends the running sandbox, and records the programs that end with it.
    async fn end_running(&self, running: &Running) {
        end_contexts(running).await;
        // First: once it has ended, another program may start it.
        self.record_ended_programs(ended::running_programs(running)).await;
        running.end().await;
    }

    /// Records programs that end. A record that cannot be written must not keep the sandbox awake.
    async fn record_ended_programs(&self, programs: Vec<String>) {
        if programs.is_empty() || !matches!(self.role, Role::OfSession) {
            return;
        }
        let directory = self.directory.clone();
        let recorded =
            engine::run_blocking(move || ended::record_programs(&directory, &programs).map_err(state_failed));
        if let Ok(true) = recorded.await {
            self.has_ended_programs.store(true, Ordering::Release);
        }
    }

    /// Returns whether programs ended with it that no tool has named.
    pub(crate) fn has_ended_programs(&self) -> bool {
        self.has_ended_programs.load(Ordering::Acquire)
    }

    /// Returns these programs once.
    pub(crate) async fn take_ended_programs(&self) -> Result<Option<EndedPrograms>> {
        if !self.has_ended_programs.swap(false, Ordering::AcqRel) {
            return Ok(None);
        }
        let directory = self.directory.clone();
        engine::run_blocking(move || ended::take_record(&directory).map_err(state_failed)).await
    }

    /// Returns whether a call is in progress, or was within this time.
    pub(crate) fn in_use(&self, within: Duration) -> bool {
        let used = *self.used.lock().unwrap_or_else(PoisonError::into_inner);
        self.calls.load(Ordering::Acquire) > 0 || used.elapsed() < within
    }

    /// Returns whether a call is in progress, and the time since the last one ended.
    pub(crate) fn last_use(&self) -> (bool, Duration) {
        let used = *self.used.lock().unwrap_or_else(PoisonError::into_inner);
        (self.calls.load(Ordering::Acquire) > 0, used.elapsed())
    }

    /// Returns whether it was idle for long enough.
    pub(crate) fn idle(&self) -> bool {
        let used = *self.used.lock().unwrap_or_else(PoisonError::into_inner);
        self.calls.load(Ordering::Acquire) == 0 && used.elapsed() >= self.settings.sleep_after
    }

    /// Fails if its files take more than they may.
    pub(super) fn has_room(&self) -> Result<()> {
        if self.full.load(Ordering::Acquire) {
            return Err(disk_full());
        }
        Ok(())
    }

    /// Returns the running sandbox, unless it sleeps or is changing its state.
    pub(crate) fn running(&self) -> Option<Arc<Running>> {
        match &*self.state.try_lock().ok()? {
            State::Awake(running) if !running.has_ended() => Some(Arc::clone(running)),
            _ => None,
        }
    }

    /// Counts as a use while it is held.
    pub(crate) fn using(self: &Arc<Self>) -> Use {
        self.calls.fetch_add(1, Ordering::AcqRel);
        Use(Arc::clone(self))
    }

    pub(crate) async fn destroy(&self) -> Result<()> {
        let mut state = self.state.lock().await;
        match &*state {
            State::Awake(running) => running.end().await,
            State::Asleep => {}
            State::Destroyed => return Err(destroyed_error()),
        }
        *state = State::Asleep;
        let (key, registry, directory) =
            (self.key.clone(), Arc::clone(&self.registry), self.directory.clone());
        let walks = Arc::clone(&self.walks);
        let provider = Weak::clone(&self.provider);
        engine::run_blocking(move || {
            let _none = walks.hold();
            layout::create_missing_parts(&directory).map_err(state_failed)?;
            let lock = claim_sandbox(&directory)?;
            registry.leave(&key)?;
            owner::release_user(&directory);
            let base = Base::of(&directory).ok().flatten();
            let gone = removal::gone_name(&directory);
            std::fs::rename(&directory, &gone).map_err(state_failed)?;
            drop(lock);
            removal::remove_directory(&gone).map_err(state_failed)?;
            match (base, provider.upgrade()) {
                (Some(base), Some(provider)) => {
                    store::end_base(&provider.stores, &provider.state, &base, &directory)
                }
                // The next program removes the layer, if it has no other use.
                _ => Ok(()),
            }
        })
        .await?;
        *state = State::Destroyed;
        Ok(())
    }
}

/// Returns the error for a browser that another program runs.
fn in_another_program() -> Error {
    let text =
        "another koze process on this machine runs the browser of this agent; use that process, or end it";
    Error::new(Code::Unavailable, text)
}

/// A call in progress, or a request to a port.
#[derive(Debug)]
pub(crate) struct Use(Arc<Inner>);

impl Clone for Use {
    fn clone(&self) -> Self {
        self.0.using()
    }
}

impl Drop for Use {
    fn drop(&mut self) {
        *self.0.used.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        self.0.calls.fetch_sub(1, Ordering::AcqRel);
    }
}
