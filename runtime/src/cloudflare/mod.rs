//! Sandboxes of a Worker, each behind a Durable Object.
//!
//! | module | job |
//! |---|---|
//! | [`contract`] | the contract of a sandbox's class |
//! | `call` | its methods as calls |
//! | `provider` | the sandboxes of a Worker as a provider of sessions |
//! | `object` | sends them, with retries |
//! | `sandbox`, `write`, `stream`, `archive` | the operations of a sandbox |
//! | `label` | the name of a sandbox's object |
//! | `known` | the sandboxes that an isolate has seen |
//! | `opens` | limits concurrent openings |
//! | `waiting` | tells an object when its caller stops waiting |
//! | [`registry`] | the list of a session's sandboxes, in a Durable Object |
//! | `store` | the store of a session |
//! | `background` | work that continues after the response |
//! | `script` | the scripts of agents, with the feature `script` |
//! | `browser` | their browsers, with the feature `browser` |
//! | [`preview`] | the preview URLs of ports |

mod archive;
mod background;
#[cfg(feature = "browser")]
mod browser;
mod call;
pub mod contract;
mod known;
pub(crate) mod label;
mod object;
mod opens;
pub mod preview;
mod process;
mod provider;
pub mod registry;
mod sandbox;
#[cfg(feature = "script")]
mod script;
mod store;
mod stream;
mod waiting;
mod write;

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use worker::send::SendFuture;
use worker::wasm_bindgen::JsCast;
use worker::{Env, ObjectNamespace};

use self::contract::{Nothing, State};
use self::object::{Object, Refused, WITHIN};
pub use self::opens::Limits;
use self::preview::{Preview, Previews};
pub use self::process::CloudflareProcess;
use self::registry::{Record, Registry};
pub use self::sandbox::CloudflareSandbox;
#[cfg(feature = "script")]
use self::script::Scripts;
pub use self::store::CloudflareStore;
use koze_core::error::{Code, Error, Result};
use koze_core::id::{SandboxId, SandboxName, SessionId};
use koze_core::journal::PageRequest;
use koze_core::maybe_send::MaybeSend;
use koze_core::profiles;
use koze_core::sandbox::{SavedDisk, Status};
use koze_core::session;
use koze_core::time::now;
use koze_core::together::join_all;
use koze_core::workspace::OpenLimits;

/// The timeout of a cancellation, which starts nothing.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(20);

/// A profile, and the sandbox class behind it. A class with several images has a profile for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Class {
    /// The profile's name: `python`.
    pub profile: &'static str,
    /// The Durable Object binding: `PYTHON_SANDBOX`.
    pub binding: &'static str,
    /// The name of the image, if the class has several.
    pub image: Option<&'static str>,
    /// The maximum number of a session's sandboxes with this profile, which the registry enforces. Without it, the platform
    /// limits the class.
    pub max_instances: Option<u32>,
}

/// Where a sandbox is, and what it was created with.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Located {
    /// The index of its class.
    class: usize,
    sleep_after_ms: Option<u32>,
    size: Option<String>,
}

/// A sandbox of a session: what the registry and its object say.
struct Looked {
    name: SandboxName,
    record: Record,
    status: Status,
    saved: Option<SavedDisk>,
}

/// The sandboxes of a Worker. Clones share them.
///
/// With a [registry] the sandboxes of a session are listed, and their number is limited. Without one, only the object
/// of a sandbox records whether it exists.
#[derive(Debug, Clone)]
pub struct Cloudflare {
    shared: Arc<Shared>,
}

#[derive(Debug, Clone)]
struct Shared {
    env: Env,
    classes: &'static [Class],
    previews: Option<Previews>,
    limits: Limits,
    /// Of the workspaces that one request opens at the same time.
    opens: OpenLimits,
    at_most: usize,
    call: Option<String>,
    /// The binding of the R2 bucket for blobs.
    bucket: Option<String>,
}

impl Cloudflare {
    /// Creates the provider of these classes, bound in an environment.
    pub fn new(env: &Env, classes: &'static [Class]) -> Self {
        let (limits, at_most) = (Limits::default(), session::MAX_SANDBOXES);
        let shared = Shared {
            env: env.clone(),
            classes,
            previews: None,
            limits,
            opens: OpenLimits::default(),
            at_most,
            call: None,
            bucket: None,
        };
        Cloudflare { shared: Arc::new(shared) }
    }

    /// Adds preview URLs for the ports of sandboxes.
    #[must_use]
    pub fn with_previews(self, previews: Previews) -> Self {
        self.changed(|shared| shared.previews = Some(previews))
    }

    /// Sets the limits on concurrent openings.
    #[must_use]
    pub fn with_limits(self, limits: Limits) -> Self {
        self.changed(|shared| shared.limits = limits)
    }

    /// Sets the maximum number of sandboxes in a session, which the registry enforces.
    #[must_use]
    pub fn with_max_sandboxes(self, sandboxes: usize) -> Self {
        self.changed(|shared| shared.at_most = sandboxes)
    }

    /// Names the call that programs belong to, so that [`cancel`](Cloudflare::cancel) can cancel it. The name must be
    /// unique within the session.
    #[must_use]
    pub fn with_call(self, name: impl Into<String>) -> Self {
        self.changed(|shared| shared.call = Some(name.into()))
    }

    /// Sets the binding of the R2 bucket that holds the blobs of stores, below `koze/`.
    #[must_use]
    pub fn with_bucket(self, binding: impl Into<String>) -> Self {
        self.changed(|shared| shared.bucket = Some(binding.into()))
    }

    /// Cancels a call: kills its programs in all sandboxes of the session, including those that have not started yet.
    /// Without a registry, only the sandboxes that this isolate has seen are reached.
    ///
    /// # Errors
    /// The errors of the registry, and of sandboxes that do not answer.
    pub fn cancel(&self, session: &SessionId, call: &str) -> impl Future<Output = Result<()>> + MaybeSend {
        SendFuture::new(async move {
            let sandboxes = match self.registry(session) {
                Some(registry) => {
                    let class = |record: &Record| self.class(&record.profile).ok();
                    let all = registry.list().await?.into_iter();
                    all.filter_map(|(name, record)| Some((name, class(&record)?))).collect()
                }
                None => known::of_session(session),
            };
            let cancel = contract::Cancel { call: call.to_owned() };
            let each = sandboxes.into_iter().map(async |(name, class)| {
                let id = SandboxId { session: session.clone(), name };
                self.object(&id, class)?
                    .call(call::cancel(&cancel, CANCEL_TIMEOUT))
                    .await
                    .map_err(Error::from)
            });
            join_all(each).await.into_iter().try_for_each(|told| told.map(drop))
        })
    }

    /// Returns a page of the journal of a session's tool calls, as JSON.
    ///
    /// # Errors
    /// [`Code::Unsupported`] without a registry, and the errors of the registry.
    pub fn calls(
        &self,
        session: &SessionId,
        request: PageRequest,
    ) -> impl Future<Output = Result<Value>> + MaybeSend {
        SendFuture::new(async move {
            let registry = self.registry(session).ok_or_else(registry::missing_journal)?;
            registry.calls(registry::calls::Request::Read(request)).await
        })
    }

    fn changed(self, change: impl FnOnce(&mut Shared)) -> Self {
        let mut shared = Arc::unwrap_or_clone(self.shared);
        change(&mut shared);
        Cloudflare { shared: Arc::new(shared) }
    }

    /// Returns the classes.
    pub(crate) fn classes(&self) -> &'static [Class] {
        self.shared.classes
    }

    pub(crate) fn namespace(&self, class: usize) -> Result<ObjectNamespace> {
        let binding = self.shared.classes[class].binding;
        self.bound(binding).ok_or_else(|| {
            let message = format!("the Worker has no binding `{binding}`: run `koze build` and deploy again");
            Error::new(Code::Unsupported, message)
        })
    }

    fn object(&self, id: &SandboxId, class: usize) -> Result<Object> {
        Ok(Object::new(self.namespace(class)?, label::of(id)))
    }

    /// Returns the index of the class with this profile name.
    fn class(&self, profile: &str) -> Result<usize> {
        self.shared.classes.iter().position(|class| class.profile == profile).ok_or_else(|| {
            let known: Vec<&str> = self.shared.classes.iter().map(|class| class.profile).collect();
            profiles::unknown_profile(profile, &known)
        })
    }

    fn registry(&self, session: &SessionId) -> Option<Registry> {
        self.bound(registry::BINDING).map(|namespace| Registry::new(namespace, session))
    }

    #[cfg(feature = "script")]
    fn scripts(&self, agent: &SessionId) -> Result<Scripts> {
        Scripts::new(self.bound(script::BINDING), agent)
    }

    /// Returns a namespace of Durable Objects, if it is bound. The cast is unchecked because `koze build` writes these
    /// bindings.
    fn bound(&self, name: &str) -> Option<ObjectNamespace> {
        crate::binding::raw(&self.shared.env, name).ok().map(JsCast::unchecked_into)
    }

    /// Returns a preview for a port of a sandbox.
    fn preview(&self, id: &SandboxId, class: usize, port: u16) -> Result<Preview<'_>> {
        let Some(previews) = &self.shared.previews else { return Err(preview::unknown_host()) };
        previews.of(self.shared.classes[class].binding, label::of(id), port)
    }

    /// Locates a sandbox: in the registry, or else in the class whose object is open.
    async fn locate(&self, id: &SandboxId) -> Result<Option<Located>> {
        if let Some(registry) = self.registry(&id.session) {
            let Some(record) = registry.find(&id.name).await? else { return Ok(None) };
            let Record { sleep_after_ms, size, .. } = record;
            // A sandbox whose profile was removed from the project is unreachable.
            let class = self.class(&record.profile).ok();
            return Ok(class.map(|class| Located { class, sleep_after_ms, size }));
        }
        let objects = (0..self.shared.classes.len()).map(|class| self.object(id, class));
        let objects = objects.collect::<Result<Vec<_>>>()?;
        let states =
            join_all(objects.iter().map(|object| object.call(call::status(&Nothing {}, WITHIN)))).await;
        for (class, state) in states.into_iter().enumerate() {
            let State { opened, image, size, .. } = state?;
            // The profiles of a class with several images have the same object.
            if opened && (image.is_none() || image.as_deref() == self.shared.classes[class].image) {
                return Ok(Some(Located { class, sleep_after_ms: None, size }));
            }
        }
        Ok(None)
    }

    /// Opens the object of a sandbox. The class in the registry takes precedence.
    async fn open_object(&self, id: &SandboxId, mut wanted: Located) -> Result<(Object, Located, bool)> {
        let _permit = opens::wait(&id.session.key(), self.shared.limits, WITHIN).await?;
        let registry = self.registry(&id.session);
        let mut entered = false;
        if let Some(registry) = &registry {
            let Located { class, sleep_after_ms, size } = wanted.clone();
            let profile = self.shared.classes[class].profile.to_owned();
            let record = Record { profile, sleep_after_ms, size, used: now() };
            let of_image = self.shared.classes[class].max_instances;
            let known = registry.enter(&id.name, &record, self.shared.at_most, of_image).await?;
            entered = known.is_none();
            if let Some(Record { profile, sleep_after_ms, size, .. }) = known {
                wanted = Located { class: self.class(&profile)?, sleep_after_ms, size };
            }
        }
        let object = self.object(id, wanted.class)?;
        let open = contract::Open {
            sleep_after_ms: wanted.sleep_after_ms,
            image: self.shared.classes[wanted.class].image.map(str::to_owned),
            size: wanted.size.clone(),
        };
        match object.call(call::open(&open, WITHIN)).await {
            Ok(opened) => {
                wanted.size = opened.size;
                known::remember(id, &wanted, now());
                Ok((object, wanted, opened.created))
            }
            Err(refused) => {
                // A sandbox that was not created must not count. If the object did not answer, that is unknown.
                let unknown =
                    matches!(&refused, Refused::Error(Error { code: Code::Timeout | Code::Unavailable, .. }));
                if let Some(registry) = registry.filter(|_| entered && !unknown) {
                    // The error of the opening is the one to report.
                    let _ = registry.leave(&id.name).await;
                }
                Err(refused.into())
            }
        }
    }

    /// Reopens a sandbox whose object is not open: where it is located now, or else in its previous class.
    async fn reopen(&self, id: &SandboxId, class: usize) -> Result<Object> {
        let known = known::get(id);
        known::forget(id);
        let last = || known.unwrap_or(Located { class, sleep_after_ms: None, size: None });
        let wanted = self.locate(id).await?.unwrap_or_else(last);
        Ok(self.open_object(id, wanted).await?.0)
    }

    /// Records in the registry that a sandbox is used. A failure does not affect the sandbox.
    async fn record_use(&self, id: &SandboxId) {
        if let Some(registry) = self.registry(&id.session) {
            let _ = registry.used(&id.name, now()).await;
        }
    }

    /// Removes a destroyed sandbox from the registry.
    fn forget(&self, id: &SandboxId) -> impl Future<Output = Result<()>> + MaybeSend {
        SendFuture::new(async move {
            known::forget(id);
            match self.registry(&id.session) {
                Some(registry) => registry.leave(&id.name).await,
                None => Ok(()),
            }
        })
    }

    /// Returns the sandboxes of a session with their status.
    async fn look(&self, session: &SessionId) -> Result<Vec<Looked>> {
        let Some(registry) = self.registry(session) else { return Err(registry::missing()) };
        let look = async |(name, record): (SandboxName, Record)| {
            let id = SandboxId { session: session.clone(), name };
            let state = match self.class(&record.profile) {
                // A sandbox that does not answer must not hide the others; the error is in the log.
                Ok(class) => self.object(&id, class)?.call(call::status(&Nothing {}, WITHIN)).await.ok(),
                Err(_) => None,
            };
            // A registered sandbox that was not opened yet starts with its first use.
            let state = state.filter(|state| state.opened);
            let status = state.as_ref().map_or(Status::Sleeping, |state| state.status);
            Ok(Looked { name: id.name, record, status, saved: state.and_then(|state| state.saved) })
        };
        join_all(registry.list().await?.into_iter().map(look)).await.into_iter().collect()
    }
}
