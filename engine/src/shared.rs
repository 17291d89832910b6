//! What all sandboxes of a session share.

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use data_encoding::HEXLOWER;
use koze_core::error::Result;
use koze_core::id::SandboxId;
use koze_egress::preview::Previews;
use sha2::{Digest as _, Sha256};
use tokio::sync::{Mutex as AsyncMutex, OnceCell};

use crate::address::EngineKind;
use crate::api::Api;
use crate::container::STATE_LABEL;
use crate::network::Networks;
use crate::record::{Record, Records};
use crate::sandbox::inner::Inner;

/// How many bytes of a hash are part of names and labels.
const HASH: usize = 8;

/// What all sandboxes of a session share.
#[derive(Debug)]
pub(crate) struct Shared {
    kind: EngineKind,
    /// The address of the engine, if it is not to be looked for.
    address: Option<String>,
    api: OnceCell<Api>,
    pub(crate) records: Records,
    pub(crate) networks: Networks,
    pub(crate) previews: Previews,
    /// The label that tells the containers of this session's directory from all others.
    pub(crate) state: String,
    /// The program of the guest.
    pub(crate) guest: &'static [u8],
    sandboxes: Mutex<HashMap<String, Arc<Inner>>>,
    is_clean: AtomicBool,
    /// Held while a sandbox is created.
    pub(crate) creating: AsyncMutex<()>,
}

impl Shared {
    pub(crate) fn new(kind: EngineKind, dir: &Path, guest: &'static [u8], address: Option<String>) -> Self {
        Shared {
            kind,
            address,
            api: OnceCell::new(),
            records: Records::at(dir),
            networks: Networks::new(dir),
            previews: Previews::default(),
            state: short_hash(dir.as_os_str().as_encoded_bytes()),
            guest,
            sandboxes: Mutex::default(),
            is_clean: AtomicBool::new(false),
            creating: AsyncMutex::default(),
        }
    }

    /// Returns the engine. Connects to it on first use, so that listing sandboxes does not need it.
    pub(crate) async fn api(&self) -> Result<Api> {
        self.api.get_or_try_init(|| Api::connect(self.kind, self.address.as_deref())).await.cloned()
    }

    /// Returns the name of a sandbox's container.
    pub(crate) fn container_name(&self, id: &SandboxId) -> String {
        // A session's directory may serve sessions of several tenants.
        let session = short_hash(id.session.key().as_bytes());
        format!("koze-{}-{session}-{}", self.state, id.name)
    }

    fn sandboxes(&self) -> MutexGuard<'_, HashMap<String, Arc<Inner>>> {
        self.sandboxes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a sandbox that this process knows.
    pub(crate) fn find_known(&self, id: &SandboxId) -> Option<Arc<Inner>> {
        self.sandboxes().get(&id.key()).cloned()
    }

    /// Returns the sandbox of a record.
    pub(crate) fn enter(self: &Arc<Self>, id: &SandboxId, record: Record) -> Arc<Inner> {
        let new = || Arc::new(Inner::new(id.clone(), record, Arc::clone(self)));
        Arc::clone(self.sandboxes().entry(id.key()).or_insert_with(new))
    }

    /// Forgets a sandbox that was destroyed.
    pub(crate) fn forget(&self, id: &SandboxId) {
        self.sandboxes().remove(&id.key());
    }

    /// Removes the containers of this directory that no sandbox has, and what is left of sandboxes that were not created to their
    /// end. Returns how many containers there were. The caller holds `creating`.
    pub(crate) async fn remove_leftovers(&self) -> Result<usize> {
        let api = self.api().await?;
        let (complete, incomplete): (Vec<_>, Vec<_>) =
            self.records.list()?.into_iter().partition(|(_, record)| record.is_complete);
        let known: Vec<_> = complete.iter().map(|(id, _)| self.container_name(id)).collect();
        let mut count = 0;
        for name in api.list(&format!("{STATE_LABEL}={}", self.state)).await? {
            if !known.contains(&name) {
                api.remove(&name).await?;
                count += 1;
            }
        }
        for (id, _) in incomplete {
            self.records.remove(&id)?;
        }
        Ok(count)
    }

    /// Removes leftovers before the first sandbox is created in this process.
    pub(crate) async fn clean_once(&self) -> Result<()> {
        if !self.is_clean.swap(true, Ordering::AcqRel) {
            self.remove_leftovers().await?;
        }
        Ok(())
    }

    /// Returns the sandboxes of this process.
    pub(crate) fn all(&self) -> Vec<Arc<Inner>> {
        self.sandboxes().values().cloned().collect()
    }

    /// Forgets all sandboxes. Those that no handle keeps stop.
    pub(crate) fn forget_all(&self) {
        let all = std::mem::take(&mut *self.sandboxes());
        drop(all);
    }
}

/// Returns the beginning of a hash, for names of files and containers.
pub(crate) fn short_hash(bytes: &[u8]) -> String {
    HEXLOWER.encode(&Sha256::digest(bytes)[..HASH])
}
