//! A session: its sandboxes by name. The tools work on it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use koze_protocol::Family;
use serde::Serialize;
use tokio::sync::Mutex as AsyncMutex;

use crate::error::{Code, Error, Result};
use crate::id::{SandboxId, SandboxName, SessionId};
use crate::journal::{JournalSettings, UsedSandboxes};
use crate::observed::{Lifecycle, Observed};
use crate::profiles::{Profiles, how_to_serve};
use crate::progress::Progress;
use crate::provider::{Hibernated, Info, Opened, Profile, Provider, Settings};
use crate::sandbox::{Sandbox, Status};
use crate::store::Key;
use crate::trace::within;
use crate::workspace::registry::{MAX_OPENS, Registry};

/// The default idle time before a sandbox sleeps.
pub const SLEEP_AFTER: Duration = Duration::from_mins(10);
/// The shortest and the longest idle time that callers may choose, in milliseconds.
pub(crate) const SLEEP_AFTER_MS: std::ops::RangeInclusive<u64> = 1000..=86_400_000;

/// A session: a set of sandboxes that its tools share. A clone is the same session.
#[derive(Debug)]
pub struct Session<P> {
    shared: Arc<Shared<P>>,
    /// The profiles that sandboxes can be created with.
    profiles: Arc<Profiles>,
    /// The family whose tools use this session, if any.
    family: Option<Family>,
    max_sandboxes: usize,
    workspaces: Arc<Registry>,
    /// Receives what the tools report while they run, if anything does.
    progress: Option<Progress>,
    /// The agent whose scripts run, if it is not the session's own.
    agent: Option<SessionId>,
    /// The name of the client that calls tools, for the journal.
    client: Option<Arc<str>>,
    /// Whether the journal records its calls, if the project has one.
    is_recorded: bool,
    /// Notes the sandboxes that the current call uses, if it is recorded.
    used: Option<UsedSandboxes>,
}

#[derive(Debug)]
struct Shared<P> {
    provider: P,
    id: SessionId,
    /// All profiles of the project.
    profiles: Arc<Profiles>,
    /// Sandboxes are created one at a time, so that concurrent calls cannot exceed the limit.
    making: AsyncMutex<()>,
    /// The sandboxes that have a handle.
    observed: Mutex<BTreeMap<SandboxName, Weak<Observed>>>,
}

/// The state of a session's sandboxes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SessionState {
    /// The sandboxes by name.
    pub sandboxes: BTreeMap<SandboxName, SandboxState>,
}

/// The state of a sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SandboxState {
    /// Whether it runs or sleeps.
    pub status: Status,
    /// Its profile's name.
    #[serde(rename = "image")]
    pub profile: String,
}

/// The default limit of sandboxes in a session.
#[doc(hidden)]
pub const MAX_SANDBOXES: usize = 20;

/// Returns the error for a session that has reached its limit of sandboxes.
#[doc(hidden)]
pub fn full(sandboxes: usize) -> Error {
    let message = format!("this session has reached its limit of {sandboxes} sandboxes: use one of them");
    Error::new(Code::Unavailable, message)
}

impl<P: Provider> Session<P> {
    /// Creates a session of a provider.
    pub fn new(provider: P, id: SessionId, profiles: Profiles) -> Self {
        let (profiles, making, observed) = (Arc::new(profiles), AsyncMutex::default(), Mutex::default());
        let shared = Shared { provider, id, profiles: Arc::clone(&profiles), making, observed };
        let workspaces = Arc::new(Registry::new(MAX_OPENS));
        Session {
            shared: Arc::new(shared),
            profiles,
            family: None,
            max_sandboxes: MAX_SANDBOXES,
            workspaces,
            progress: None,
            agent: None,
            client: None,
            is_recorded: true,
            used: None,
        }
    }

    /// Sets the maximum number of sandboxes.
    #[must_use]
    pub fn with_max_sandboxes(self, sandboxes: usize) -> Self {
        Session { max_sandboxes: sandboxes, ..self }
    }

    /// Sets how many workspaces of the session are opened or attached at the same time. The provider has a limit of its own.
    ///
    /// # Panics
    /// If the limit is 0.
    #[must_use]
    pub fn with_max_opens(self, opens: usize) -> Self {
        Session { workspaces: Arc::new(Registry::new(opens)), ..self }
    }

    /// Returns the same session, whose tools report what their programs print while they run.
    #[must_use]
    pub fn with_progress(self, progress: Progress) -> Self {
        Session { progress: Some(progress), ..self }
    }

    /// Returns the same session for a client with this name, which the journal records.
    #[must_use]
    pub fn with_client(self, name: &str) -> Self {
        Session { client: Some(name.into()), ..self }
    }

    /// Returns the same session, whose calls the journal does not record: those of a host itself.
    #[must_use]
    pub fn without_journal(self) -> Self {
        Session { is_recorded: false, ..self }
    }

    /// Returns the name of the client that calls tools.
    pub(crate) fn client(&self) -> Option<&str> {
        self.client.as_deref()
    }

    /// Returns what the journal records of this session's calls; `None` if nothing.
    pub(crate) fn journal_settings(&self) -> Option<JournalSettings> {
        let settings = self.shared.profiles.journal();
        (self.is_recorded && settings.enabled).then_some(settings)
    }

    /// Returns the same session for a call that is recorded.
    pub(crate) fn noting(self, used: UsedSandboxes) -> Self {
        Session { used: Some(used), ..self }
    }

    /// Notes that the current call uses a sandbox, for the journal.
    pub(crate) fn note_use(&self, name: &SandboxName) {
        if let Some(used) = &self.used {
            used.add(name);
        }
    }

    /// Returns the same session for an agent of the tenant. Sessions of the same agent share the state, the libraries and the
    /// tools of its scripts. By default, each session has an agent of its own, with the session's name.
    ///
    /// # Errors
    /// [`Code::InvalidInput`] if the name is not valid.
    pub fn with_agent(self, agent: &str) -> Result<Self> {
        let agent = SessionId::new(self.id().tenant(), agent)?;
        Ok(Session { agent: Some(agent), ..self })
    }

    /// Returns the agent whose scripts run in this session.
    pub fn agent(&self) -> &SessionId {
        self.agent.as_ref().unwrap_or_else(|| self.id())
    }

    /// Returns the store of the session's agent.
    ///
    /// # Errors
    /// As [`store`](Self::store).
    pub fn agent_store(&self) -> Result<P::Store> {
        self.shared.provider.store(self.agent())
    }

    pub(crate) fn progress(&self) -> Option<&Progress> {
        self.progress.as_ref()
    }

    pub(crate) fn workspace_registry(&self) -> &Arc<Registry> {
        &self.workspaces
    }

    /// Returns the same session for the tools of a family: with the profiles that serve it, and without the sandboxes that do
    /// not.
    ///
    /// # Errors
    /// [`Code::Unsupported`] if no profile of the project serves the family.
    pub fn serving(&self, family: Family) -> Result<Self> {
        let all = &self.shared.profiles;
        let profiles =
            if family != Family::Script && all.list().iter().all(|profile| profile.tools.contains(&family)) {
                Arc::clone(all)
            } else {
                let none = || {
                    let message =
                        format!("this project does not serve the tools `{family}`. {}", how_to_serve(family));
                    Error::new(Code::Unsupported, message)
                };
                Arc::new(all.of(family).ok_or_else(none)?)
            };
        Ok(Session { profiles, family: Some(family), ..self.clone() })
    }

    /// Returns the session's ID.
    pub fn id(&self) -> &SessionId {
        &self.shared.id
    }

    /// Returns the provider of the sandboxes.
    pub fn provider(&self) -> &P {
        &self.shared.provider
    }

    /// Returns the session's store.
    ///
    /// # Errors
    /// [`Code::Unsupported`] if the provider has no place for it.
    pub fn store(&self) -> Result<P::Store> {
        self.shared.provider.store(&self.shared.id)
    }

    /// Returns the profiles of the project.
    pub fn profiles(&self) -> &Profiles {
        &self.profiles
    }

    /// Returns the sandbox with this name. Creates it with the default profile on first use.
    ///
    /// # Errors
    /// [`Code::InvalidInput`] if the name is not valid, [`Code::Unavailable`] if the session has reached its limit, and the
    /// errors of the provider.
    pub async fn sandbox(&self, name: &str) -> Result<P::Sandbox> {
        let profile = self.profiles.default_profile().clone();
        let settings = sandbox_settings(profile, None, None);
        Ok(self.open_sandbox(SandboxName::new(name)?, settings).await?.sandbox)
    }

    /// Creates a sandbox unless it exists. `profile` defaults to the default profile, `size` and `sleep_after` to the profile's
    /// values. Returns whether the sandbox was created.
    ///
    /// # Errors
    /// As [`Session::sandbox`]; [`Code::AlreadyExists`] if the name exists with another profile or size.
    pub async fn create(
        &self,
        name: &str,
        profile: Option<&str>,
        size: Option<&str>,
        sleep_after: Option<Duration>,
    ) -> Result<bool> {
        let wanted = self.profiles.find(profile)?.clone().with_size(size)?;
        let settings = sandbox_settings(wanted.clone(), size, sleep_after);
        let opened = self.open_sandbox(SandboxName::new(name)?, settings).await?;
        let exists = |what: String| {
            let message = format!(
                "the sandbox `{name}` already exists with {what}: choose another name for the new one"
            );
            Error::new(Code::AlreadyExists, message)
        };
        if profile.is_some() && opened.profile != wanted.name {
            return Err(exists(format!("the image `{}`", opened.profile)));
        }
        if size.is_some() && opened.size.as_deref() != size {
            let size = opened.size.unwrap_or_else(|| "of its image".to_owned());
            return Err(exists(format!("the size `{size}`")));
        }
        Ok(opened.created)
    }

    /// Lists the sandboxes of the session, sorted by name.
    ///
    /// # Errors
    /// The errors of the provider.
    pub async fn list(&self) -> Result<Vec<Info>> {
        let mut list = self.shared.provider.list(&self.shared.id).await?;
        list.retain(|info| self.not_served_error(info.name.as_str(), &info.profile).is_none());
        Ok(list)
    }

    /// Lists the sleeping sandboxes of the session, sorted by name.
    ///
    /// # Errors
    /// [`Code::Unsupported`] unless the provider records when a sandbox was last used: a Worker without a registry and the
    /// local provider do not.
    pub async fn list_hibernated(&self) -> Result<Vec<Hibernated>> {
        self.shared.provider.list_hibernated(&self.shared.id).await
    }

    /// Stops a sandbox of the session and deletes its files.
    ///
    /// # Errors
    /// [`Code::NotFound`] if there is no sandbox with this name, and the errors of the provider.
    pub async fn destroy(&self, name: &str) -> Result<()> {
        let name = SandboxName::new(name)?;
        let Some(opened) = self.find_sandbox(&name).await? else {
            return Err(Error::new(Code::NotFound, format!("there is no sandbox `{name}` in this session")));
        };
        opened.sandbox.destroy().await?;
        if let Some(observed) = self.lock_observed().remove(&name).and_then(|observed| observed.upgrade()) {
            observed.set_lifecycle(Lifecycle::Destroyed);
        }
        Ok(())
    }

    /// Returns the observer that the handles to a sandbox share. Creates it for the first handle.
    pub(crate) fn observe_sandbox(&self, name: &SandboxName) -> Arc<Observed> {
        let mut handles = self.lock_observed();
        // Forget sandboxes without handles. A sandbox that was destroyed elsewhere gets a new observer.
        handles.retain(|_, observed| observed.strong_count() > 0);
        let there = handles.get(name).and_then(Weak::upgrade);
        let there = there.filter(|observed| observed.state().status != Lifecycle::Destroyed);
        let observed = there.unwrap_or_else(|| Arc::new(Observed::default()));
        handles.insert(name.clone(), Arc::downgrade(&observed));
        observed
    }

    /// Returns the state of the session's sandboxes.
    ///
    /// # Errors
    /// The errors of the provider.
    pub async fn state(&self) -> Result<SessionState> {
        let list = self.list().await?.into_iter();
        let state = |info: Info| (info.name, SandboxState { status: info.status, profile: info.profile });
        Ok(SessionState { sandboxes: list.map(state).collect() })
    }

    pub(crate) fn provider_note(&self, profile: &Profile) -> Option<String> {
        self.shared.provider.note(profile)
    }

    /// Returns the observer of a sandbox, if it has a handle.
    pub(crate) fn find_observer(&self, name: &str) -> Option<Arc<Observed>> {
        self.lock_observed().get(&SandboxName::new(name).ok()?)?.upgrade()
    }

    pub(crate) async fn find_sandbox(&self, name: &SandboxName) -> Result<Option<Opened<P::Sandbox>>> {
        self.note_use(name);
        self.shared.provider.find(&self.sandbox_id(name.clone())).await
    }

    fn lock_observed(&self) -> MutexGuard<'_, BTreeMap<SandboxName, Weak<Observed>>> {
        self.shared.observed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) async fn open_sandbox(
        &self,
        name: SandboxName,
        settings: Settings,
    ) -> Result<Opened<P::Sandbox>> {
        self.note_use(&name);
        let id = self.sandbox_id(name);
        if let Some(there) = self.shared.provider.find(&id).await? {
            return self.check_served(&id, there);
        }
        let _one = self.shared.making.lock().await;
        self.check_room(&id).await?;
        let opened = within!(
            "open" { sandbox = id.name.as_str(), profile = settings.profile.name },
            self.shared.provider.open(&id, &settings)
        )?;
        self.check_served(&id, opened)
    }

    /// Creates a sandbox whose directory begins with a layer: see [`Provider::open_on_layer`].
    pub(crate) async fn open_on_layer(
        &self,
        name: SandboxName,
        profile: Profile,
        dir: &str,
        layer: (&P::Store, &Key),
    ) -> Result<Option<Opened<P::Sandbox>>> {
        self.note_use(&name);
        let id = self.sandbox_id(name);
        let settings = sandbox_settings(profile, None, None);
        let _one = self.shared.making.lock().await;
        self.check_room(&id).await?;
        let opened = within!(
            "open" { sandbox = id.name.as_str(), profile = settings.profile.name },
            self.shared.provider.open_on_layer(&id, &settings, dir, layer.0, layer.1)
        )?;
        opened.map(|opened| self.check_served(&id, opened)).transpose()
    }

    /// Checks that the session may have another sandbox.
    async fn check_room(&self, id: &SandboxId) -> Result<()> {
        match self.shared.provider.list(&self.shared.id).await {
            Ok(there)
                if there.len() >= self.max_sandboxes && !there.iter().any(|info| info.name == id.name) =>
            {
                Err(full(there.len()))
            }
            // A provider that cannot list sandboxes cannot count them.
            Err(error) if error.code != Code::Unsupported => Err(error),
            _ => Ok(()),
        }
    }

    /// Checks that a sandbox serves the family of this session.
    fn check_served(&self, id: &SandboxId, opened: Opened<P::Sandbox>) -> Result<Opened<P::Sandbox>> {
        self.not_served_error(id.name.as_str(), &opened.profile).map_or(Ok(opened), Err)
    }

    /// Returns why the tools of this session's family cannot use a sandbox with this profile. A sandbox whose profile the project no
    /// longer has is not refused.
    fn not_served_error(&self, name: &str, profile: &str) -> Option<Error> {
        let family = self.family?;
        let profile = self.shared.profiles.list().iter().find(|known| known.name == profile)?;
        if profile.tools.contains(&family) {
            return None;
        }
        let serves: Vec<&str> = profile.tools.iter().map(|family| family.name()).collect();
        let message = format!(
            "the sandbox `{name}` does not serve the tools `{family}`: its image `{}` serves {}",
            profile.name,
            serves.join(", ")
        );
        Some(Error::new(Code::Unsupported, message))
    }

    fn sandbox_id(&self, name: SandboxName) -> SandboxId {
        SandboxId { session: self.shared.id.clone(), name }
    }
}

/// Returns the settings of a new sandbox.
pub(crate) fn sandbox_settings(
    profile: Profile,
    size: Option<&str>,
    sleep_after: Option<Duration>,
) -> Settings {
    let sleep_after = sleep_after.or(profile.sleep_after).unwrap_or(SLEEP_AFTER);
    Settings { profile, sleep_after, size: size.map(str::to_owned) }
}

impl<P> Clone for Session<P> {
    fn clone(&self) -> Self {
        let (shared, profiles) = (Arc::clone(&self.shared), Arc::clone(&self.profiles));
        let workspaces = Arc::clone(&self.workspaces);
        Session {
            shared,
            profiles,
            family: self.family,
            max_sandboxes: self.max_sandboxes,
            workspaces,
            progress: self.progress.clone(),
            agent: self.agent.clone(),
            client: self.client.clone(),
            is_recorded: self.is_recorded,
            used: self.used.clone(),
        }
    }
}
