//! The sandboxes of one session, by their names: what the tools work on.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use serde::Serialize;
use tokio::sync::Mutex as AsyncMutex;

use crate::error::{Code, Error, Result};
use crate::handle::{Handle, Life, Observed};
use crate::id::{SandboxId, SandboxName, SessionId};
use crate::provider::{Image, Info, Opened, Provider, Template};
use crate::sandbox::{Sandbox, Status};
use crate::tool::BoundTool;

/// How long a sandbox may idle before it sleeps, where neither its image nor anybody else says.
pub const SLEEP_AFTER: Duration = Duration::from_mins(10);

/// The images of a project: `koze build` lists them.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Images {
    list: Vec<Image>,
    default: usize,
}

impl Images {
    /// The images, and the name of the one a sandbox gets when nobody names any.
    ///
    /// # Errors
    /// [`Code::InvalidInput`] where `default` is none of them.
    pub fn new(list: Vec<Image>, default: &str) -> Result<Self> {
        let Some(default) = list.iter().position(|image| image.name == default) else {
            let message = format!("`{default}` is none of the images of this project");
            return Err(Error::new(Code::InvalidInput, message));
        };
        Ok(Images { list, default })
    }

    /// All of them.
    pub fn list(&self) -> &[Image] {
        &self.list
    }

    /// The default.
    pub fn default_image(&self) -> &Image {
        &self.list[self.default]
    }

    /// The image of this name or reference, the default where none is named.
    ///
    /// # Errors
    /// [`Code::InvalidInput`], with the names there are.
    pub fn find(&self, named: Option<&str>) -> Result<&Image> {
        let Some(named) = named else { return Ok(self.default_image()) };
        let found = self.list.iter().find(|image| image.name == named);
        found.or_else(|| self.list.iter().find(|image| image.reference == named)).ok_or_else(|| {
            let known: Vec<&str> = self.list.iter().map(|image| image.name.as_str()).collect();
            unknown_image(named, &known)
        })
    }
}

/// The error of a name or reference that is none of these images.
pub fn unknown_image(named: &str, known: &[&str]) -> Error {
    let message = format!("there is no image `{named}`: the images are {}", known.join(", "));
    Error::new(Code::InvalidInput, message)
}

/// The sandboxes of one session. A clone has the same ones.
#[derive(Debug)]
pub struct Pool<P> {
    shared: Arc<Shared<P>>,
    at_most: usize,
}

#[derive(Debug)]
struct Shared<P> {
    provider: P,
    session: SessionId,
    images: Images,
    /// One is made at a time: each has to see those before it, or there would be more than there may be.
    making: AsyncMutex<()>,
    /// Those that somebody has a handle of.
    observed: Mutex<BTreeMap<SandboxName, Weak<Observed>>>,
}

/// The sandboxes of a session, as they are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PoolState {
    /// By their names.
    pub sandboxes: BTreeMap<SandboxName, SandboxState>,
}

/// A sandbox of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SandboxState {
    /// Whether it runs.
    pub status: Status,
    /// Its image's name.
    pub image: String,
}

/// How many sandboxes a session may have, where nobody says.
pub(crate) const AT_MOST: usize = 20;

/// The error of a session that has as many sandboxes as it may.
pub(crate) fn full(sandboxes: usize) -> Error {
    let message = format!("this session has {sandboxes} sandboxes, as many as it may: use one of these");
    Error::new(Code::Unavailable, message)
}

impl<P: Provider> Pool<P> {
    /// The sandboxes of a session.
    pub fn new(provider: P, session: SessionId, images: Images) -> Self {
        let (making, observed) = (AsyncMutex::default(), Mutex::default());
        Pool { shared: Arc::new(Shared { provider, session, images, making, observed }), at_most: AT_MOST }
    }

    /// The same, with at most so many sandboxes.
    #[must_use]
    pub fn with_at_most(self, sandboxes: usize) -> Self {
        Pool { at_most: sandboxes, ..self }
    }

    /// The session.
    pub fn session(&self) -> &SessionId {
        &self.shared.session
    }

    /// What its sandboxes come from.
    pub fn provider(&self) -> &P {
        &self.shared.provider
    }

    /// The images there are.
    pub fn images(&self) -> &Images {
        &self.shared.images
    }

    /// The sandbox of a name; the first use makes it, with the default image.
    ///
    /// # Errors
    /// [`Code::InvalidInput`] where the name is none, [`Code::Unavailable`] where the session has too many already,
    /// and those of the provider.
    pub async fn sandbox(&self, name: &str) -> Result<P::Sandbox> {
        let image = self.shared.images.default_image().clone();
        Ok(self.open(SandboxName::new(name)?, image, None).await?.sandbox)
    }

    /// Makes a sandbox, with the default image where none is named, that sleeps as its image says where `sleep_after`
    /// does not; whether it was made now.
    ///
    /// # Errors
    /// As [`Pool::sandbox`]; [`Code::AlreadyExists`] where one of this name has another image.
    pub async fn create(
        &self,
        name: &str,
        image: Option<&str>,
        sleep_after: Option<Duration>,
    ) -> Result<bool> {
        let wanted = self.shared.images.find(image)?.clone();
        let opened = self.open(SandboxName::new(name)?, wanted.clone(), sleep_after).await?;
        if image.is_some() && opened.image != wanted.name {
            let message = format!(
                "the sandbox `{name}` is there with the image `{}`: give the new one another name",
                opened.image
            );
            return Err(Error::new(Code::AlreadyExists, message));
        }
        Ok(opened.created)
    }

    /// The sandboxes of the session, in the order of their names.
    ///
    /// # Errors
    /// Those of the provider.
    pub async fn list(&self) -> Result<Vec<Info>> {
        self.shared.provider.list(&self.shared.session).await
    }

    /// Ends a sandbox of the session, and takes its files away.
    ///
    /// # Errors
    /// [`Code::NotFound`] where there is none of this name, and those of the provider.
    pub async fn destroy(&self, name: &str) -> Result<()> {
        let name = SandboxName::new(name)?;
        let Some(opened) = self.find(&name).await? else {
            return Err(Error::new(Code::NotFound, format!("there is no sandbox `{name}` in this session")));
        };
        opened.sandbox.destroy().await?;
        if let Some(observed) = self.handles().remove(&name).and_then(|observed| observed.upgrade()) {
            observed.lives(Life::Destroyed);
        }
        Ok(())
    }

    /// A handle of the sandbox of a name: the same name, the same sandbox; the first use makes it, with the default image.
    ///
    /// A host whose keys are no such names makes them sessions: `SessionId::new("app", key)`.
    ///
    /// # Errors
    /// As [`Pool::sandbox`].
    pub async fn get(&self, name: &str) -> Result<Handle<P>> {
        let sandbox = self.sandbox(name).await?;
        let name = SandboxName::new(name)?;
        let mut handles = self.handles();
        // What nobody has a handle of any more is forgotten, and what was destroyed elsewhere is another one now.
        handles.retain(|_, observed| observed.strong_count() > 0);
        let there = handles.get(&name).and_then(Weak::upgrade);
        let there = there.filter(|observed| observed.state().status != Life::Destroyed);
        let observed = there.unwrap_or_else(|| Arc::new(Observed::new()));
        handles.insert(name.clone(), Arc::downgrade(&observed));
        drop(handles);
        Ok(Handle::new(self.clone(), name, sandbox, observed))
    }

    /// All eight tools of the agent family over these sandboxes.
    pub fn tools(&self) -> Vec<BoundTool<P>> {
        BoundTool::all(self)
    }

    /// The sandboxes there are, and how they are.
    ///
    /// # Errors
    /// Those of the provider.
    pub async fn state(&self) -> Result<PoolState> {
        let list = self.list().await?.into_iter();
        let state = |info: Info| (info.name, SandboxState { status: info.status, image: info.image });
        Ok(PoolState { sandboxes: list.map(state).collect() })
    }

    pub(crate) fn note(&self) -> Option<&str> {
        self.shared.provider.note()
    }

    /// What is observed of a sandbox, if anybody has a handle of it.
    pub(crate) fn observed(&self, name: &str) -> Option<Arc<Observed>> {
        self.handles().get(&SandboxName::new(name).ok()?)?.upgrade()
    }

    pub(crate) async fn find(&self, name: &SandboxName) -> Result<Option<Opened<P::Sandbox>>> {
        self.shared.provider.find(&self.id(name.clone())).await
    }

    fn handles(&self) -> MutexGuard<'_, BTreeMap<SandboxName, Weak<Observed>>> {
        self.shared.observed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn open(
        &self,
        name: SandboxName,
        image: Image,
        sleep_after: Option<Duration>,
    ) -> Result<Opened<P::Sandbox>> {
        let id = self.id(name);
        if let Some(there) = self.shared.provider.find(&id).await? {
            return Ok(there);
        }
        let _one = self.shared.making.lock().await;
        match self.list().await {
            Ok(there) if there.len() >= self.at_most && !there.iter().any(|info| info.name == id.name) => {
                return Err(full(there.len()));
            }
            Ok(_) => {}
            // Who cannot list them cannot count them, either.
            Err(error) if error.code == Code::Unsupported => {}
            Err(error) => return Err(error),
        }
        let sleep_after = sleep_after.or(image.sleep_after).unwrap_or(SLEEP_AFTER);
        self.shared.provider.open(&id, &Template { image, sleep_after }).await
    }

    fn id(&self, name: SandboxName) -> SandboxId {
        SandboxId { session: self.shared.session.clone(), name }
    }
}

impl<P> Clone for Pool<P> {
    fn clone(&self) -> Self {
        Pool { shared: Arc::clone(&self.shared), at_most: self.at_most }
    }
}
