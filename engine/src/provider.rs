//! The provider of sandboxes in containers.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use koze_core::Profiles;
use koze_core::archive::Tar;
use koze_core::error::Result;
use koze_core::id::{SandboxId, SessionId};
use koze_core::journal::UnmaskedCall;
use koze_core::provider::{Info, Opened, Profile, Provider, ScriptProvider, Settings};
use koze_core::sandbox::Status;
use koze_core::script::{
    Calls, Check, Egress, Exchange, Exchanged, Failure, Query, Ran, Secrets as ScriptSecrets, Start, Wire,
};
use koze_core::store::Key;
use koze_core::workspace::OpenLimits;
use koze_egress::Internet;
use koze_state::Secrets;

use crate::EngineKind;
use crate::preview;
use crate::record::Record;
use crate::runtime;
use crate::sandbox::EngineSandbox;
use crate::sandbox::inner::Inner;
use crate::shared::Shared;

/// Sandboxes in containers of an engine. Everything else of a session, such as its store and its scripts, is that of another
/// provider, `B`. A clone is the same provider.
#[derive(Debug, Clone)]
pub struct Engine<B> {
    handle: Arc<Handle>,
    base: B,
}

/// What the clones of a provider share. Its sandboxes stop with it.
#[derive(Debug)]
struct Handle(Arc<Shared>);

impl Drop for Handle {
    fn drop(&mut self) {
        self.0.forget_all();
    }
}

/// A sandbox that runs in this process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunningSandbox {
    /// Its name.
    pub name: String,
    /// Whether calls use it.
    pub is_in_use: bool,
    /// How long ago the last call ended.
    pub idle: Duration,
    /// The idle time before it sleeps.
    pub sleep_after: Duration,
}

impl<B: Provider> Engine<B> {
    /// Opens the sandboxes of a session's directory. `guest` is the program that runs in containers. Asks no engine yet.
    pub fn new(kind: EngineKind, dir: &Path, guest: &'static [u8], base: B) -> Self {
        Engine { handle: Arc::new(Handle(Arc::new(Shared::new(kind, dir, guest, None)))), base }
    }

    /// The same for an engine that listens at an address, such as `unix:///run/podman/podman.sock`.
    pub fn at(address: &str, kind: EngineKind, dir: &Path, guest: &'static [u8], base: B) -> Self {
        let shared = Shared::new(kind, dir, guest, Some(address.to_owned()));
        Engine { handle: Arc::new(Handle(Arc::new(shared))), base }
    }

    /// Sets the values of credentials. By default, there are none.
    #[must_use]
    pub fn with_secrets(self, secrets: Secrets) -> Self {
        self.shared().networks.set_secrets(secrets);
        self
    }

    /// Sets servers of this machine that sandboxes reach as the internet, for a test.
    #[doc(hidden)]
    #[must_use]
    pub fn with_internet(self, internet: Internet) -> Self {
        self.shared().networks.set_internet(internet);
        self
    }

    /// Returns the provider of everything but sandboxes.
    pub fn base(&self) -> &B {
        &self.base
    }

    fn shared(&self) -> &Arc<Shared> {
        &self.handle.0
    }

    /// Puts all sandboxes to sleep that run in this process.
    ///
    /// # Errors
    /// The first error. The others sleep all the same.
    pub async fn sleep(&self) -> Result<()> {
        let mut result = Ok(());
        for inner in self.shared().all() {
            let slept = EngineSandbox(inner).sleep().await;
            result = result.and(slept);
        }
        result
    }

    /// Serves the previews of the session's directory again, if a port of a sandbox was exposed. If that fails, the next call of
    /// [`expose`](koze_core::Sandbox::expose) reports it.
    #[must_use]
    pub fn with_known_previews(self) -> Self {
        let records = self.shared().records.list().unwrap_or_default();
        if records.iter().any(|(_, record)| record.is_exposed()) {
            let _ = preview::serve_previews(self.shared());
        }
        self
    }

    /// Returns the port on the loopback interface at which this program serves previews, if it does.
    pub fn preview_port(&self) -> Option<u16> {
        self.shared().previews.port()
    }

    /// Updates the sandboxes of a session to their profiles. One that runs is put to sleep first. The container keeps the size
    /// and the variables that it was created with.
    ///
    /// # Errors
    /// [`koze_core::Code::InvalidInput`] if a host of a profile is not valid.
    pub async fn refresh(&self, session: &SessionId, profiles: &Profiles) -> Result<()> {
        for (id, mut record) in self.shared().records.list()? {
            if id.session != *session {
                continue;
            }
            let Ok(profile) = profiles.find(Some(&record.settings.profile.name)) else { continue };
            let known = &mut record.settings.profile;
            let updated = Profile { size: known.size, env: known.env.clone(), ..profile.clone() };
            let updated =
                Profile { reference: known.reference.clone(), stored: known.stored.clone(), ..updated };
            if *known == updated {
                continue;
            }
            koze_egress::check_profile(&updated)?;
            *known = updated;
            match self.shared().find_known(&id) {
                Some(inner) => {
                    EngineSandbox(Arc::clone(&inner)).sleep().await?;
                    inner.change_record(|own| own.settings = record.settings)?;
                }
                None => self.shared().records.write(&id, &record)?,
            }
        }
        Ok(())
    }

    /// Describes the sandboxes of a session that run in this process.
    pub fn running(&self, session: &SessionId) -> Vec<RunningSandbox> {
        let of_session = self.shared().all().into_iter().filter(|inner| inner.id.session == *session);
        let describe = |inner: Arc<Inner>| {
            inner.running()?;
            let (is_in_use, idle) = inner.last_use();
            let sleep_after = inner.record().settings.sleep_after;
            Some(RunningSandbox { name: inner.id.name.to_string(), is_in_use, idle, sleep_after })
        };
        of_session.filter_map(describe).collect()
    }

    /// Removes the containers of this session's directory that no sandbox has: those of a process that was killed while it
    /// created or destroyed one. Returns how many there were.
    ///
    /// # Errors
    /// [`koze_core::Code::Unavailable`] if the engine does not answer.
    pub async fn remove_leftovers(&self) -> Result<usize> {
        let shared = Arc::clone(self.shared());
        runtime::run_to_completion(async move {
            let _one = shared.creating.lock().await;
            shared.remove_leftovers().await
        })
        .await
    }
}

fn opened(inner: Arc<Inner>, created: bool) -> Opened<EngineSandbox> {
    let (profile, size) = {
        let record = inner.record();
        (record.settings.profile.name.clone(), record.settings.size.clone())
    };
    Opened { sandbox: EngineSandbox(inner), profile, size, created }
}

async fn open(shared: Arc<Shared>, id: SandboxId, settings: Settings) -> Result<Opened<EngineSandbox>> {
    // One at a time, so that concurrent calls create a sandbox once.
    let _one = shared.creating.lock().await;
    if let Some(inner) = find(&shared, &id)? {
        return Ok(opened(inner, false));
    }
    shared.clean_once().await?;
    let record = Record::new(&id, &settings);
    shared.records.write(&id, &record)?;
    let inner = shared.enter(&id, record);
    if let Err(error) = inner.start_new().await {
        // A sandbox that could not start was not created.
        shared.forget(&id);
        shared.records.remove(&id)?;
        return Err(error);
    }
    Ok(opened(inner, true))
}

fn find(shared: &Arc<Shared>, id: &SandboxId) -> Result<Option<Arc<Inner>>> {
    if let Some(inner) = shared.find_known(id) {
        return Ok(Some(inner));
    }
    // One that is not complete was about to be created by a process that was killed.
    let record = shared.records.read_record(id)?.filter(|record| record.is_complete);
    Ok(record.map(|record| shared.enter(id, record)))
}

impl<B: Provider> Provider for Engine<B> {
    type Sandbox = EngineSandbox;
    type Store = B::Store;

    fn open_limits(&self) -> &OpenLimits {
        self.base.open_limits()
    }

    fn has_journal(&self) -> bool {
        self.base.has_journal()
    }

    fn keeps_pictures(&self) -> bool {
        self.base.keeps_pictures()
    }

    fn record_call(&self, session: &SessionId, call: UnmaskedCall) {
        self.base.record_call(session, call);
    }

    async fn open(&self, id: &SandboxId, settings: &Settings) -> Result<Opened<EngineSandbox>> {
        koze_egress::check_profile(&settings.profile)?;
        let (shared, id, settings) = (Arc::clone(self.shared()), id.clone(), settings.clone());
        runtime::run_to_completion(open(shared, id, settings)).await
    }

    async fn find(&self, id: &SandboxId) -> Result<Option<Opened<EngineSandbox>>> {
        Ok(find(self.shared(), id)?.map(|inner| opened(inner, false)))
    }

    async fn list(&self, session: &SessionId) -> Result<Vec<Info>> {
        let mut infos = Vec::new();
        for (id, record) in self.shared().records.list()? {
            if id.session != *session || !record.is_complete {
                continue;
            }
            let is_running = self.shared().records.is_claimed(&id);
            let status = if is_running { Status::Running } else { Status::Sleeping };
            infos.push(Info { name: id.name, profile: record.settings.profile.name, status, saved: None });
        }
        Ok(infos)
    }

    fn store(&self, session: &SessionId) -> Result<B::Store> {
        self.base.store(session)
    }

    async fn read_layer(&self, store: &B::Store, key: &Key) -> Result<Option<Tar>> {
        self.base.read_layer(store, key).await
    }
}

impl<B: Provider> ScriptProvider for Engine<B> {
    async fn run_script(&self, agent: &SessionId, start: Start, calls: &impl Calls) -> Result<Ran> {
        self.base.run_script(agent, start, calls).await
    }

    fn script_secrets(&self, agent: &SessionId) -> Result<ScriptSecrets> {
        self.base.script_secrets(agent)
    }

    async fn script_query(&self, agent: &SessionId, query: Query) -> Result<serde_json::Value> {
        self.base.script_query(agent, query).await
    }

    async fn script_exchange(
        &self,
        agent: &SessionId,
        egress: &Egress,
        exchange: Exchange,
    ) -> Result<Exchanged> {
        self.base.script_exchange(agent, egress, exchange).await
    }

    async fn script_refused(&self, agent: &SessionId, host: &str, port: u16, rule: &str) {
        self.base.script_refused(agent, host, port, rule).await;
    }

    async fn open_browser(
        &self,
        session: &SessionId,
        agent: &SessionId,
        egress: &Egress,
        time: Duration,
    ) -> Result<impl Wire> {
        self.base.open_browser(session, agent, egress, time).await
    }

    async fn close_browser(&self, agent: &SessionId) -> Result<()> {
        self.base.close_browser(agent).await
    }

    async fn check_script(
        &self,
        agent: &SessionId,
        check: Check,
    ) -> Result<std::result::Result<(), Failure>> {
        self.base.check_script(agent, check).await
    }
}
