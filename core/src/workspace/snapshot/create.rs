//! Takes, lists, removes, exports and imports snapshots.

use futures_util::stream::{Stream, StreamExt as _, once};

use super::archive::{self, Pieces, Written};
use super::index::{self, Index};
use super::manifest::FORMAT;
use super::{Snapshot, SnapshotId, Source};
use crate::archive::Tar;
use crate::detach::run_detached;
use crate::error::{Code, Error, Result};
use crate::id::SessionId;
use crate::maybe_send::MaybeSend;
use crate::provider::Provider;
use crate::sandbox::{Place, Sandbox as _};
use crate::store::{Key, Store};
use crate::time::{millis, now};
use crate::trace::event;
use crate::workspace::config::SnapshotConfig;

impl<P: Provider> Source<P> {
    /// Returns the store of a session's snapshots.
    pub(super) fn store_of(&self, session: &SessionId) -> Result<P::Store> {
        self.session.provider().snapshot_store(session, self.snapshot_config().bucket.as_deref())
    }

    fn session_store(&self) -> Result<P::Store> {
        self.store_of(&self.id.session)
    }

    pub(super) async fn create_snapshot(&self) -> Result<Snapshot> {
        let (store, created) = (self.session_store()?, now());
        let list = self.sweep_and_list(&store, created).await?;
        let sandbox = match &self.sandbox {
            Some(sandbox) => sandbox.clone(),
            None => self.session.workspaces().get(&self.config.name).await?.sandbox().clone(),
        };
        let id = SnapshotId::random();
        let key = index::archive_key(&id, created)?;
        let room = index::check_room(&list, self.snapshot_config(), 0)?;
        let full = index::full_error(index::used_bytes(&list), self.snapshot_config());
        let mut unlisted = Unlisted::new(store.clone(), key.clone());
        let provider = self.session.provider();
        let (contents, archive_bytes, sha256) =
            if let Some(layer) = provider.take_layer(&sandbox, self.archived_dir(), &store, &key).await? {
                if layer.bytes > room {
                    unlisted.remove_blob().await;
                    return Err(full);
                }
                (layer.contents, layer.bytes, None)
            } else {
                let tar = sandbox.archive(Place { root: self.archived_dir(), path: self.archived_dir() });
                let written = Written::default();
                store.put_blob(&key, archive::of_tar(tar, room, full, written.clone())).await?;
                let (contents, bytes, sha256) = written.sums();
                (contents, bytes, Some(sha256))
            };
        let snapshot = Snapshot {
            format: FORMAT,
            id,
            workspace: self.config.name.clone(),
            session: self.id.session.session().to_owned(),
            dir: self.archived_dir().to_owned(),
            created,
            expires: expiry_time(self.snapshot_config(), created),
            parent: self.parent.clone(),
            contents,
            archive_bytes,
            sha256,
        };
        self.add_to_index(unlisted, &snapshot).await?;
        Ok(snapshot)
    }

    pub(super) async fn list_snapshots(&self) -> Result<Vec<Snapshot>> {
        let mut list = Index(&self.session_store()?).list().await?;
        list.retain(|snapshot| snapshot.workspace == self.config.name);
        Ok(list)
    }

    pub(super) async fn remove_snapshot(&self, id: &SnapshotId) -> Result<bool> {
        let store = self.session_store()?;
        let is_ours = self.list_snapshots().await?.iter().any(|snapshot| snapshot.id == *id);
        let removed = is_ours && Index(&store).remove(id).await?;
        if removed {
            event!(info "snapshot removed" { workspace = self.config.name.as_str(), snapshot = id.as_str() });
        }
        Ok(removed)
    }

    pub(super) async fn export_snapshot(&self, id: &SnapshotId) -> Result<Pieces> {
        let (store, snapshot) = self.find_snapshot(id, None).await?;
        let key = index::archive_key(&snapshot.id, snapshot.created)?;
        match self.session.provider().read_layer(&store, &key).await? {
            None => export_pieces(archive::of_store(store, key, &snapshot), &snapshot),
            Some(tar) => self.export_layer(tar, store, snapshot).await,
        }
    }

    /// Exports a layer. Archives it first, because the file begins with the size and the hash of the archive.
    async fn export_layer(&self, tar: Tar, store: P::Store, snapshot: Snapshot) -> Result<Pieces> {
        let key = index::archive_key(&SnapshotId::random(), now())?;
        let archive = Unlisted::new(store.clone(), key.clone());
        let written = Written::default();
        let full = index::full_error(u64::MAX, self.snapshot_config());
        store.put_blob(&key, archive::of_tar(tar, u64::MAX, full, written.clone())).await?;
        let (contents, archive_bytes, sha256) = written.sums();
        archive::check_contents(&contents, &snapshot.contents)?;
        let snapshot = Snapshot { archive_bytes, sha256: Some(sha256), ..snapshot };
        let content = archive::of_store(store, key, &snapshot);
        // The temporary archive is deleted with the stream.
        export_pieces(content.inspect(move |_| _ = &archive), &snapshot)
    }

    pub(super) async fn import_snapshot(&self, file: Pieces) -> Result<Snapshot> {
        let (store, now) = (self.session_store()?, now());
        let list = self.sweep_and_list(&store, now).await?;
        let (origin, archive) = archive::of_file(file).await?;
        index::check_room(&list, self.snapshot_config(), origin.archive_bytes)?;
        let snapshot = Snapshot {
            id: SnapshotId::random(),
            workspace: self.config.name.clone(),
            expires: expiry_time(self.snapshot_config(), now),
            // The parent is in the store that the file is from.
            parent: None,
            created: origin.created.min(now),
            ..origin
        };
        let key = index::archive_key(&snapshot.id, snapshot.created)?;
        let unlisted = Unlisted::new(store.clone(), key.clone());
        store.put_blob(&key, archive).await?;
        self.add_to_index(unlisted, &snapshot).await?;
        Ok(snapshot)
    }

    /// Removes what has expired or was left behind. Returns the snapshots of the session.
    async fn sweep_and_list(&self, store: &P::Store, now: u64) -> Result<Vec<Snapshot>> {
        Index(store).remove_stale(now).await?;
        self.sweep_derived(now).await?;
        let list = Index(store).list().await?;
        // Check this before anything is read.
        index::check_room(&list, self.snapshot_config(), 0)?;
        Ok(list)
    }

    /// Lists a snapshot whose archive is complete.
    async fn add_to_index(&self, mut unlisted: Unlisted<P::Store>, snapshot: &Snapshot) -> Result<()> {
        if let Err(error) = Index(&self.session_store()?).add(snapshot, self.snapshot_config()).await {
            unlisted.remove_blob().await;
            return Err(error);
        }
        unlisted.keep_blob();
        event!(info "snapshot created" {
            workspace = self.config.name.as_str(),
            snapshot = snapshot.id.as_str(),
            bytes = snapshot.archive_bytes
        });
        Ok(())
    }

    /// Finds a snapshot of the workspace that has not expired.
    pub(super) async fn find_snapshot(
        &self,
        id: &SnapshotId,
        session: Option<&str>,
    ) -> Result<(P::Store, Snapshot)> {
        let own = &self.id.session;
        let session = match session {
            Some(other) if other != own.session() => {
                if !self.snapshot_config().allow_cross_session {
                    let message = format!(
                        "the snapshot `{id}` belongs to another session: set `snapshot(allow_cross_session = true)` in \
                         `workspace(..)` if sessions of a tenant may restore each other's snapshots"
                    );
                    return Err(Error::new(Code::PermissionDenied, message));
                }
                SessionId::new(own.tenant(), other)?
            }
            _ => own.clone(),
        };
        let store = self.store_of(&session)?;
        let found = Index(&store).list().await?.into_iter().find(|snapshot| snapshot.id == *id);
        let missing = |message: String| Err(Error::new(Code::NotFound, message));
        match found {
            None => missing(format!(
                "there is no snapshot `{id}` in the session `{}`: it was removed, or belongs to another session",
                session.session()
            )),
            Some(snapshot) if snapshot.workspace != self.config.name => {
                missing(format!("the snapshot `{id}` is one of the workspace `{}`", snapshot.workspace))
            }
            Some(snapshot) if snapshot.is_expired(now()) => {
                missing(format!("the snapshot `{id}` has expired: create a new one"))
            }
            Some(snapshot) => Ok((store, snapshot)),
        }
    }
}

fn expiry_time(config: &SnapshotConfig, now: u64) -> Option<u64> {
    config.expires_after.map(|after| now.saturating_add(millis(after)))
}

/// Returns the content of a file with a snapshot.
fn export_pieces(
    archive: impl Stream<Item = Result<Vec<u8>>> + MaybeSend + 'static,
    snapshot: &Snapshot,
) -> Result<Pieces> {
    let header = snapshot.to_header()?;
    Ok(Box::pin(once(async move { Ok(header) }).chain(archive)))
}

/// An archive or layer that is not listed yet. Dropping it deletes the archive.
struct Unlisted<T: Store>(Option<(T, Key)>);

impl<T: Store> Unlisted<T> {
    fn new(store: T, key: Key) -> Self {
        Unlisted(Some((store, key)))
    }

    fn keep_blob(&mut self) {
        self.0 = None;
    }

    async fn remove_blob(&mut self) {
        if let Some((store, key)) = self.0.take() {
            // If that fails, a later snapshot removes it.
            let _ = store.delete_blob(&key).await;
        }
    }
}

impl<T: Store> Drop for Unlisted<T> {
    fn drop(&mut self) {
        if let Some((store, key)) = self.0.take() {
            run_detached(async move {
                let _ = store.delete_blob(&key).await;
            });
        }
    }
}
