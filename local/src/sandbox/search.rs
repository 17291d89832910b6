//! Searches the files of a sandbox. Its guest walks the tree and reads the files; only what it finds comes here.

use std::sync::Arc;

use koze_guest::message::{Answer, Place, Request};
use tokio::sync::oneshot;

use super::inner::Inner;
use crate::engine::engine;
use crate::errors::{convert_fault, gone_error, unexpected_answer};
use koze_core::error::Result;
use koze_core::sandbox::{Search, Searched};

/// Searches. If the caller stops waiting, the guest stops, too.
pub(super) async fn search_tree(inner: &Arc<Inner>, place: Place, search: Search) -> Result<Searched> {
    let (done, found) = oneshot::channel();
    let inner = Arc::clone(inner);
    engine()?.spawn(async move {
        let mut done = done;
        let found = run_search(&inner, place, search, &mut done).await;
        let _ = done.send(found);
    });
    found.await.map_err(|_| gone_error())?
}

async fn run_search(
    inner: &Arc<Inner>,
    place: Place,
    search: Search,
    done: &mut oneshot::Sender<Result<Searched>>,
) -> Result<Searched> {
    let _using = inner.using();
    let running = inner.wake().await?;
    let number = running.number();
    let mut coming = running.ask(number, &Request::Search(place, search), &[]).await?;
    let answer = tokio::select! {
        answer = &mut coming => answer,
        () = done.closed() => {
            running.send_request(number, &Request::Kill { exec: number }, &[]).await?;
            coming.await
        }
    };
    match answer.map_err(|_| running.gone_error())?.message {
        Answer::Searched(found) => Ok(found),
        Answer::Failed(fault) => Err(convert_fault(fault)),
        _ => Err(unexpected_answer()),
    }
}
