//! Creates a layer from a directory of a sandbox, for a snapshot.

use std::os::fd::AsFd as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use koze_guest::message::{Place, Request};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

use super::inner::Inner;
use super::limits;
use super::transfer::Outcome;
use crate::engine;
use crate::errors::gone_error;
use crate::host::layout::Own;
use crate::layers::{self, layer_error};
use crate::store::LocalStore;
use koze_core::archive::Contents;
use koze_core::error::Result;
use koze_core::store::Key;

/// Creates a layer from a directory of a sandbox, and lists it in the store under a key. Returns what it contains, and the number of bytes
/// that it does not share with an earlier layer.
pub(crate) async fn take_layer(
    from: Arc<Inner>,
    own: Own,
    dir: String,
    store: LocalStore,
    key: Key,
    cancelled: Arc<AtomicBool>,
) -> Result<(Contents, u64)> {
    let using = from.using();
    let guest = from.wake().await?;
    let (layers, sandbox) = (store.layers().clone(), from.directory.clone());
    let plan = {
        let (layers, own, sandbox) = (layers.clone(), own.clone(), sandbox.clone());
        engine::run_blocking(move || layers::prepare_layer(&layers, &sandbox, &own).map_err(layer_error))
            .await?
    };
    let (socket, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
        .map_err(|error| layer_error(error.into()))?;
    let request = Request::HandOver(Place { root: dir.clone(), path: dir.clone() });
    let passed = [theirs.as_fd(), plan.known.as_fd()];
    let answer = guest.ask(guest.number(), &request, &passed).await?;
    drop(theirs);
    let outcome = Outcome::new(Arc::clone(&from), answer, using);
    let most = limits::disk_limit(&from.settings).saturating_mul(2);
    let built = engine::run_blocking(move || {
        let (draft, contents, bytes) = layers::fill_layer(plan, &own, &dir, most, &socket, &cancelled)?;
        if cancelled.load(Ordering::Acquire) {
            return Err(gone_error());
        }
        store.list_layer(&key, draft.name(), bytes)?;
        Ok((draft, contents, bytes))
    });
    let (mut draft, contents, bytes) = built.await?;
    draft.keep(&sandbox);
    drop(outcome);
    Ok((contents, bytes))
}
