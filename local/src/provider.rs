//! The provider of sandboxes on this machine.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::errors::state_failed;
use crate::host::layout::Own;
use crate::host::registry::Registry;
use crate::host::{claim, layout};
use crate::layers::Layer;
use crate::sandbox::Cancelled;
use crate::sandbox::image;
use crate::sandbox::inner::Inner;
use crate::sandbox::programs::find_programs;
use crate::sandbox::{archive, layer};
use crate::{Local, LocalSandbox, LocalStore, Shared, engine, launch};
use koze_core::archive::Tar;
use koze_core::error::{Code, Error, Result};
use koze_core::id::{SandboxId, SandboxName, SessionId};
use koze_core::journal::UnmaskedCall;
use koze_core::provider::{
    Info, LocalImage, Opened, Profile, Provider, ScriptProvider, Settings, TakenLayer,
};
use koze_core::sandbox::Status;
use koze_core::script::{
    Calls, Check, Egress, Exchange, Exchanged, Failure, NoCalls, Query, Ran, Start, Wire,
};
use koze_core::store::Key;
use koze_core::tool::programs::names_version;
use koze_core::workspace::OpenLimits;
use koze_script::protocol::ToScript;

/// Says what new sandboxes have in place of the files of their image.
fn describe_machine(profile: &Profile) -> String {
    let Profile { name, reference, .. } = profile;
    let describe_difference = || {
        // Only now, because it runs the programs.
        let programs = names_version(reference).then(find_programs)?;
        let difference = programs.find_difference(reference)?;
        Some(format!(": {} in place of {difference}", programs.list_versions()))
    };
    let differ = describe_difference().unwrap_or_default();
    let next = match profile.local_image {
        LocalImage::Host => String::new(),
        _ if profile.stored.is_some() => format!("; `koze image build {name}` on the machine changes that"),
        _ => format!("; `koze image pull {name}` on the machine changes that"),
    };
    format!(
        "a new sandbox does not use the image `{reference}`: it has this machine's /usr, read-only, with the programs in it{differ}{next}"
    )
}

impl Provider for Local {
    type Sandbox = LocalSandbox;
    type Store = LocalStore;

    fn open_limits(&self) -> &OpenLimits {
        &self.1
    }

    fn has_journal(&self) -> bool {
        self.2.is_some()
    }

    fn keeps_pictures(&self) -> bool {
        self.2.is_some()
    }

    fn record_call(&self, _: &SessionId, call: UnmaskedCall) {
        if let Some(journal) = &self.2 {
            journal.record(call);
        }
    }

    fn note(&self, profile: &Profile) -> Option<String> {
        let mut notes = Vec::new();
        if image::list_used(self.0.images.get().map(PathBuf::as_path), [profile]).is_empty() {
            notes.push(describe_machine(profile));
        }
        if self.0.one_user {
            notes.push(
                "all sandboxes share one user of this machine because its user namespace maps no others"
                    .to_owned(),
            );
        }
        (!notes.is_empty()).then(|| notes.join("; "))
    }

    async fn open(&self, id: &SandboxId, settings: &Settings) -> Result<Opened<LocalSandbox>> {
        koze_egress::check_profile(&settings.profile)?;
        let (shared, id, settings) = (Arc::clone(&self.0), id.clone(), settings.clone());
        engine::run_to_completion(async move {
            let registry = Arc::clone(&shared.registry);
            let wanted = (id.clone(), settings);
            let (stored, created) =
                engine::run_blocking(move || registry.enter(&wanted.0, &wanted.1)).await?;
            let profile = stored.profile.name.clone();
            let size = stored.size.clone();
            let inner = shared.sandbox(&id.key(), &id.name, stored);
            if created && let Err(error) = inner.start_new().await {
                // A sandbox that could not start was not created.
                let registry = Arc::clone(&shared.registry);
                engine::run_blocking(move || registry.leave(&id.key())).await?;
                return Err(error);
            }
            Ok(Opened { sandbox: LocalSandbox(inner), profile, size, created })
        })
        .await
    }

    async fn find(&self, id: &SandboxId) -> Result<Option<Opened<LocalSandbox>>> {
        let opened = |inner: Arc<Inner>| {
            let profile = inner.settings.profile.name.clone();
            let size = inner.settings.size.clone();
            Opened { sandbox: LocalSandbox(inner), profile, size, created: false }
        };
        if let Some(inner) = self.0.running(id) {
            return Ok(Some(opened(inner)));
        }
        let (shared, id) = (Arc::clone(&self.0), id.clone());
        engine::run_blocking(move || {
            let stored = shared.registry.find(&id.key())?;
            Ok(stored.map(|stored| opened(shared.sandbox(&id.key(), &id.name, stored))))
        })
        .await
    }

    async fn list(&self, session: &SessionId) -> Result<Vec<Info>> {
        let (shared, session) = (Arc::clone(&self.0), session.clone());
        engine::run_blocking(move || list_infos(&shared.registry, &shared.state, &session)).await
    }

    fn store(&self, session: &SessionId) -> Result<LocalStore> {
        Ok(LocalStore::new(&self.0.stores, &self.0.state, session))
    }

    async fn take_layer(
        &self,
        sandbox: &LocalSandbox,
        dir: &str,
        store: &LocalStore,
        key: &Key,
    ) -> Result<Option<TakenLayer>> {
        let Some(own) = layout::find_own(dir) else { return Ok(None) };
        let cancelled = Cancelled::default();
        let flag = cancelled.flag();
        let (from, dir, store, key) = (Arc::clone(&sandbox.0), dir.to_owned(), store.clone(), key.clone());
        let (contents, bytes) =
            engine::run_to_completion(layer::take_layer(from, own, dir, store, key, flag)).await?;
        drop(cancelled);
        Ok(Some(TakenLayer { contents, bytes }))
    }

    async fn open_on_layer(
        &self,
        id: &SandboxId,
        settings: &Settings,
        dir: &str,
        store: &LocalStore,
        key: &Key,
    ) -> Result<Option<Opened<LocalSandbox>>> {
        koze_egress::check_profile(&settings.profile)?;
        let (Some(own), true) = (layout::find_own(dir), self.0.overlays.load(Ordering::Relaxed)) else {
            return Ok(None);
        };
        let Some(layer) = store.layer(key).await? else { return Ok(None) };
        let (shared, id, settings, store) =
            (Arc::clone(&self.0), id.clone(), settings.clone(), store.clone());
        engine::run_to_completion(
            async move { open_on_layer(&shared, &id, &settings, &store, layer, own).await },
        )
        .await
    }

    async fn read_layer(&self, store: &LocalStore, key: &Key) -> Result<Option<Tar>> {
        let Some(layer) = store.layer(key).await? else { return Ok(None) };
        let place = engine::run_blocking(move || layer.place()).await?;
        Ok(Some(archive::of_host(place)))
    }
}

impl ScriptProvider for Local {
    async fn run_script(&self, agent: &SessionId, start: Start, calls: &impl Calls) -> Result<Ran> {
        self.0.scripts.send(&agent.key(), ToScript::Start(start), calls).await
    }

    fn script_secrets(&self, _: &SessionId) -> Result<koze_core::script::Secrets> {
        self.0
            .secrets
            .get()
            .map_or_else(|| Ok(koze_core::script::Secrets::default()), |secrets| secrets.values())
    }

    async fn script_query(&self, agent: &SessionId, query: Query) -> Result<serde_json::Value> {
        self.0.databases.answer(agent.key(), query).await
    }

    async fn script_exchange(
        &self,
        agent: &SessionId,
        egress: &Egress,
        exchange: Exchange,
    ) -> Result<Exchanged> {
        self.0.fetching.send(agent, egress, exchange).await
    }

    async fn script_refused(&self, agent: &SessionId, host: &str, port: u16, rule: &str) {
        self.0.fetching.record_refusal(agent, host, port, rule).await;
    }

    async fn open_browser(
        &self,
        session: &SessionId,
        agent: &SessionId,
        egress: &Egress,
        time: Duration,
    ) -> Result<impl Wire> {
        self.0.browsers.open(&self.0, Some(session.clone()), agent, egress, time).await
    }

    async fn close_browser(&self, agent: &SessionId) -> Result<()> {
        self.0.browsers.close(agent).await
    }

    async fn check_script(
        &self,
        agent: &SessionId,
        check: Check,
    ) -> Result<std::result::Result<(), Failure>> {
        let ran = self.0.scripts.send(&agent.key(), ToScript::Check(check), &NoCalls).await?;
        Ok(ran.result.map(drop))
    }
}

/// Creates a sandbox on top of a layer. Returns `None` if the kernel refuses overlays.
async fn open_on_layer(
    shared: &Arc<Shared>,
    id: &SandboxId,
    settings: &Settings,
    store: &LocalStore,
    layer: Layer,
    own: Own,
) -> Result<Option<Opened<LocalSandbox>>> {
    let (registry, wanted) = (Arc::clone(&shared.registry), (id.clone(), settings.clone()));
    let (stored, created) = engine::run_blocking(move || registry.enter(&wanted.0, &wanted.1)).await?;
    if !created {
        let message = format!("the sandbox `{}` was created meanwhile: try again", id.name);
        return Err(Error::new(Code::Unavailable, message));
    }
    let inner = shared.sandbox(&id.key(), &id.name, stored);
    let directory = inner.directory.clone();
    let begun = async {
        let made = directory.clone();
        engine::run_blocking(move || {
            layout::create_missing_parts(&made)
                .and_then(|()| layout::create_owned_directories(&made, None))
                .map_err(state_failed)
        })
        .await?;
        if !store.begin(layer, own, directory).await? {
            return Ok(false);
        }
        inner.start_new().await.map(|_| true)
    };
    let refused = match begun.await {
        Ok(true) => {
            let profile = inner.settings.profile.name.clone();
            return Ok(Some(Opened { sandbox: LocalSandbox(inner), profile, size: None, created }));
        }
        Ok(false) => None,
        Err(error) => Some(error),
    };
    // A sandbox that could not start was not created.
    inner.destroy().await?;
    match refused {
        None => Ok(None),
        Some(error) if launch::is_layer_refused(&error) => {
            shared.overlays.store(false, Ordering::Relaxed);
            Ok(None)
        }
        Some(error) => Err(error),
    }
}

/// Returns the sandboxes of a session, ordered by name.
pub(super) fn list_infos(registry: &Registry, state: &Path, session: &SessionId) -> Result<Vec<Info>> {
    let info = |(name, settings): (String, Settings)| {
        let name = SandboxName::new(&name)?;
        let id = SandboxId { session: session.clone(), name: name.clone() };
        let running = claim::is_claimed(&layout::sandbox_directory(state, &id.key()));
        let status = if running { Status::Running } else { Status::Sleeping };
        Ok(Info { name, profile: settings.profile.name, status, saved: None })
    };
    registry.list(session)?.into_iter().map(info).collect()
}
