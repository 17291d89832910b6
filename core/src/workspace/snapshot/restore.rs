//! Creates sandboxes from snapshots.

use futures_util::stream::{TryStreamExt as _, try_unfold};

use super::archive::{self, check_contents};
use super::derived::{self, Derived, How, RENEW};
use super::index;
use super::{Contents, Restored, Snapshot, SnapshotId, Source};
use crate::archive::Bytes;
use crate::detach::run_detached;
use crate::error::{Code, Error, Result};
use crate::id::{SandboxId, SandboxName};
use crate::provider::Provider;
use crate::sandbox::{Place, Sandbox};
use crate::session::sandbox_settings;
use crate::store::Store;
use crate::time::now;
use crate::trace::event;

/// How many names are tried.
const TURNS: usize = 20;

impl<P: Provider> Source<P> {
    pub(super) async fn derive_sandbox(
        &self,
        id: &SnapshotId,
        session: Option<&str>,
        how: How,
    ) -> Result<Restored> {
        let (store, snapshot) = self.find_snapshot(id, session).await?;
        self.sweep_derived(now()).await?;
        // The new sandbox belongs to the session that asks for it.
        let records = self.session.store()?;
        let mut derived = Derived {
            workspace: self.config.name.clone(),
            snapshot: snapshot.id.clone(),
            complete: false,
            written: now(),
        };
        let (name, version) = self.reserve_name(&records, &derived, how).await?;
        let mut half = Half { records: Some(records.clone()), name: name.clone(), sandbox: None };
        let mut lease = Lease { records: &records, name: &name, derived: &mut derived, version };
        match self.fill_sandbox(&mut half, &store, &snapshot, &mut lease).await {
            Ok(contents) => {
                lease.mark_complete().await?;
                half.records = None;
                event!(info "snapshot restored" {
                    workspace = self.config.name.as_str(),
                    snapshot = id.as_str(),
                    sandbox = name.as_str()
                });
                Ok(Restored { workspace: name, snapshot: snapshot.id, contents })
            }
            Err(error) => {
                half.destroy().await;
                Err(error)
            }
        }
    }

    /// Records a name that is not used.
    async fn reserve_name(
        &self,
        records: &P::Store,
        derived: &Derived,
        how: How,
    ) -> Result<(SandboxName, u64)> {
        for _ in 0..TURNS {
            let name = derived::random_name(&self.config.name, how)?;
            if self.session.find_sandbox(&name).await?.is_none()
                && let Some(version) = derived::add_record(records, &name, derived).await?
            {
                return Ok((name, version));
            }
        }
        Err(Error::new(
            Code::Unavailable,
            "no name is free for the new sandbox: destroy some of those that exist",
        ))
    }

    /// Creates the sandbox and its files.
    async fn fill_sandbox(
        &self,
        half: &mut Half<P::Sandbox, P::Store>,
        store: &P::Store,
        snapshot: &Snapshot,
        lease: &mut Lease<'_, P::Store>,
    ) -> Result<Contents> {
        let dir = self.archived_dir();
        let key = index::archive_key(&snapshot.id, snapshot.created)?;
        let (name, profile) = (half.name.clone(), self.profile.clone());
        if snapshot.sha256.is_none()
            && let Some(opened) =
                self.session.open_on_layer(name.clone(), profile.clone(), dir, (store, &key)).await?
        {
            half.sandbox = Some(opened.sandbox);
            return Ok(snapshot.contents);
        }
        let opened = self.session.open_sandbox(name, sandbox_settings(profile, None, None)).await?;
        if !opened.created {
            let message = format!("the sandbox `{}` was created meanwhile: try again", half.name);
            return Err(Error::new(Code::Unavailable, message));
        }
        let sandbox = opened.sandbox;
        half.sandbox = Some(sandbox.clone());
        self.create_empty_dir(&sandbox, dir).await?;
        let tar: Bytes<'_> = match self.session.provider().read_layer(store, &key).await? {
            Some(tar) => Box::pin(tar.map_ok(|(bytes, _)| bytes)),
            None => {
                Box::pin(archive::read_contents(Box::pin(archive::of_store(store.clone(), key, snapshot))))
            }
        };
        let renewing = try_unfold((tar, lease), |(mut tar, lease)| async move {
            let next = tar.try_next().await?;
            lease.renew_if_due().await?;
            Ok(next.map(|bytes| (bytes, (tar, lease))))
        });
        let contents = sandbox.extract(Place { root: dir, path: dir }, Box::pin(renewing)).await?;
        check_contents(&contents, &snapshot.contents)?;
        Ok(contents)
    }

    /// Creates the directory, without what the image has in it.
    async fn create_empty_dir(&self, sandbox: &P::Sandbox, dir: &str) -> Result<()> {
        sandbox.make_dir(Place { root: "/", path: dir }).await?;
        let entries = match sandbox.list(Place { root: dir, path: dir }).await {
            // A provider without empty directories creates it with its first file.
            Err(error) if error.code == Code::NotFound => Vec::new(),
            entries => entries?,
        };
        for entry in entries {
            let path = format!("{dir}/{}", entry.name);
            sandbox.remove(Place { root: dir, path: &path }).await?;
        }
        Ok(())
    }

    /// Destroys the sandboxes that a killed program has left half.
    pub(super) async fn sweep_derived(&self, now: u64) -> Result<()> {
        let records = self.session.store()?;
        for name in derived::list_abandoned(&records, now).await? {
            let id = SandboxId { session: self.session.id().clone(), name };
            if let Some(opened) = self.session.provider().find(&id).await? {
                opened.sandbox.destroy().await?;
            }
            derived::delete_record(&records, &id.name).await?;
        }
        Ok(())
    }
}

/// The record of a sandbox that is being filled.
struct Lease<'a, T> {
    records: &'a T,
    name: &'a SandboxName,
    derived: &'a mut Derived,
    version: u64,
}

impl<T: Store> Lease<'_, T> {
    /// Renews the record if that is due.
    async fn renew_if_due(&mut self) -> Result<()> {
        if now() < self.derived.written + RENEW { Ok(()) } else { self.write_record().await }
    }

    async fn mark_complete(&mut self) -> Result<()> {
        self.derived.complete = true;
        self.write_record().await
    }

    async fn write_record(&mut self) -> Result<()> {
        self.derived.written = now();
        self.version = derived::update_record(self.records, self.name, self.derived, self.version).await?;
        Ok(())
    }
}

/// A sandbox that is not complete. Dropping it destroys the sandbox.
struct Half<S: Sandbox, T: Store> {
    records: Option<T>,
    name: SandboxName,
    sandbox: Option<S>,
}

impl<S: Sandbox, T: Store> Half<S, T> {
    async fn destroy(&mut self) {
        if let Some(records) = self.records.take() {
            destroy_sandbox(&records, &self.name, self.sandbox.take()).await;
        }
    }
}

impl<S: Sandbox, T: Store> Drop for Half<S, T> {
    fn drop(&mut self) {
        if let Some(records) = self.records.take() {
            let (name, sandbox) = (self.name.clone(), self.sandbox.take());
            run_detached(async move { destroy_sandbox(&records, &name, sandbox).await });
        }
    }
}

async fn destroy_sandbox<S: Sandbox, T: Store>(records: &T, name: &SandboxName, sandbox: Option<S>) {
    if let Some(sandbox) = sandbox
        && sandbox.destroy().await.is_err()
    {
        // The record stays, and a later call destroys the sandbox.
        return;
    }
    let _ = derived::delete_record(records, name).await;
}
