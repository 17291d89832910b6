//! The sandboxes of a Worker as a provider of sessions.

use std::time::Duration;

#[cfg(feature = "script")]
use serde_json::Value;
use worker::send::SendFuture;

#[cfg(feature = "script")]
use super::script;
use super::{Cloudflare, CloudflareSandbox, CloudflareStore, Located, Looked, background, known, registry};
use koze_core::error::Result;
use koze_core::id::{SandboxId, SessionId};
use koze_core::journal::UnmaskedCall;
use koze_core::maybe_send::MaybeSend;
use koze_core::provider::{Hibernated, Info, Opened, Provider, ScriptProvider, Settings};
use koze_core::sandbox::Status;
#[cfg(feature = "browser")]
use koze_core::script::Wire;
#[cfg(feature = "script")]
use koze_core::script::{Calls, Check, Egress, Exchange, Exchanged, Failure, Query, Ran, Secrets, Start};
use koze_core::time::{millis, now};
use koze_core::workspace::OpenLimits;

/// The maximum idle time of a container, whatever the request says.
const MAX_SLEEP: Duration = Duration::from_hours(24 * 30);

impl Provider for Cloudflare {
    type Sandbox = CloudflareSandbox;
    type Store = CloudflareStore;

    fn open_limits(&self) -> &OpenLimits {
        &self.shared.opens
    }

    fn has_journal(&self) -> bool {
        self.bound(registry::BINDING).is_some()
    }

    fn record_call(&self, session: &SessionId, call: UnmaskedCall) {
        let Some(registry) = self.registry(session) else { return };
        let secrets = self.script_secrets(session).ok();
        background::run_in_background(async move {
            let Ok(entry) = serde_json::to_string(&call.mask(secrets.as_ref())) else { return };
            // A failure is logged there, and does not affect the call.
            let _ = registry.calls::<()>(registry::calls::Request::Record { entry }).await;
        });
    }

    fn open(
        &self,
        id: &SandboxId,
        settings: &Settings,
    ) -> impl Future<Output = Result<Opened<CloudflareSandbox>>> + MaybeSend {
        SendFuture::new(async move {
            let class = self.class(&settings.profile.name)?;
            let sleep = u32::try_from(millis(settings.sleep_after.min(MAX_SLEEP))).ok();
            let wanted = Located { class, sleep_after_ms: sleep, size: settings.size.clone() };
            let (_, located, created) = self.open_object(id, wanted).await?;
            self.opened(id, located, created)
        })
    }

    fn find(
        &self,
        id: &SandboxId,
    ) -> impl Future<Output = Result<Option<Opened<CloudflareSandbox>>>> + MaybeSend {
        SendFuture::new(async move {
            if let Some(known) = known::get(id) {
                return self.opened(id, known, false).map(Some);
            }
            let Some(located) = self.locate(id).await? else { return Ok(None) };
            known::remember(id, &located, now());
            self.opened(id, located, false).map(Some)
        })
    }

    fn list(&self, session: &SessionId) -> impl Future<Output = Result<Vec<Info>>> + MaybeSend {
        SendFuture::new(async move {
            let all = self.look(session).await?.into_iter();
            let info = |Looked { name, record, status, saved }| Info {
                name,
                profile: record.profile,
                status,
                saved,
            };
            Ok(all.map(info).collect())
        })
    }

    fn list_hibernated(
        &self,
        session: &SessionId,
    ) -> impl Future<Output = Result<Vec<Hibernated>>> + MaybeSend {
        SendFuture::new(async move {
            let all = self.look(session).await?.into_iter();
            let sleeping = all.filter(|looked| looked.status == Status::Sleeping);
            let hibernated = |Looked { name, record, .. }| Hibernated {
                name,
                profile: record.profile,
                last_used: record.used,
            };
            Ok(sleeping.map(hibernated).collect())
        })
    }

    fn store(&self, session: &SessionId) -> Result<CloudflareStore> {
        Ok(CloudflareStore::new(self, session))
    }

    fn snapshot_store(&self, session: &SessionId, bucket: Option<&str>) -> Result<CloudflareStore> {
        let store = self.store(session)?;
        Ok(match bucket {
            Some(binding) => store.with_bucket(binding),
            None => store,
        })
    }
}

impl ScriptProvider for Cloudflare {
    #[cfg(feature = "script")]
    fn run_script(
        &self,
        agent: &SessionId,
        start: Start,
        calls: &impl Calls,
    ) -> impl Future<Output = Result<Ran>> + MaybeSend {
        SendFuture::new(async move { self.scripts(agent)?.run(&start, calls).await })
    }

    #[cfg(feature = "script")]
    fn check_script(
        &self,
        agent: &SessionId,
        check: Check,
    ) -> impl Future<Output = Result<std::result::Result<(), Failure>>> + MaybeSend {
        SendFuture::new(async move { self.scripts(agent)?.check(&check).await })
    }

    #[cfg(feature = "script")]
    fn script_secrets(&self, _: &SessionId) -> Result<Secrets> {
        Ok(script::secrets(&self.shared.env))
    }

    #[cfg(feature = "script")]
    fn script_query(
        &self,
        agent: &SessionId,
        query: Query,
    ) -> impl Future<Output = Result<Value>> + MaybeSend {
        SendFuture::new(async move { self.scripts(agent)?.query(query).await })
    }

    #[cfg(feature = "script")]
    fn script_exchange(
        &self,
        agent: &SessionId,
        egress: &Egress,
        exchange: Exchange,
    ) -> impl Future<Output = Result<Exchanged>> + MaybeSend {
        SendFuture::new(async move { self.scripts(agent)?.exchange(egress, exchange).await })
    }

    #[cfg(feature = "browser")]
    fn open_browser(
        &self,
        _: &SessionId,
        agent: &SessionId,
        egress: &Egress,
        time: Duration,
    ) -> impl Future<Output = Result<impl Wire>> + MaybeSend {
        SendFuture::new(async move { self.scripts(agent)?.open_browser(egress, time).await })
    }

    #[cfg(feature = "browser")]
    fn close_browser(&self, agent: &SessionId) -> impl Future<Output = Result<()>> + MaybeSend {
        SendFuture::new(async move { self.scripts(agent)?.close_browser().await })
    }
}

impl Cloudflare {
    fn opened(&self, id: &SandboxId, located: Located, created: bool) -> Result<Opened<CloudflareSandbox>> {
        let Located { class, size, .. } = located;
        let sandbox = CloudflareSandbox::of_session(self, id, class)?;
        Ok(Opened { sandbox, profile: self.shared.classes[class].profile.to_owned(), size, created })
    }
}
