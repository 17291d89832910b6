//! A file or tree from one sandbox to another, as a stream over a pipe: the guest of the one fills it, the guest of the
//! other empties it, each with no more than the rights of its sandbox. Nothing of it goes through this process.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use koze_guest::channel::Received;
use koze_guest::message::{Answer, Place, Request};
use rustix::pipe::{PipeFlags, pipe_with};
use tokio::sync::oneshot;
use tokio::sync::oneshot::error::RecvError;

use super::engine::{self, engine};
use super::files::odd;
use super::layout;
use super::running::{error, gone};
use super::sandbox::Inner;
use crate::error::{Code, Error, Result};

/// How long the guests may take to tidy up where the caller has given up.
const PATIENCE: Duration = Duration::from_secs(5);

/// Copies, and gives the bytes of the files. Where the caller gives up waiting, what is there of the copy goes away.
pub(super) async fn copy(from: &Arc<Inner>, source: Place, to: &Arc<Inner>, target: Place) -> Result<u64> {
    let (done, copied) = oneshot::channel();
    let (from, to) = (Arc::clone(from), Arc::clone(to));
    engine()?.spawn(async move {
        let mut done = done;
        let result = run(&from, source, &to, target, &mut done).await;
        let _ = done.send(result);
    });
    copied.await.map_err(|_| gone())?
}

async fn run(
    from: &Arc<Inner>,
    source: Place,
    to: &Arc<Inner>,
    target: Place,
    done: &mut oneshot::Sender<Result<u64>>,
) -> Result<u64> {
    let _using = (from.using(), to.using());
    let (source_guest, target_guest) = (from.wake().await?, to.wake().await?);
    let most = room(to).await?;
    let failed =
        |error: std::io::Error| Error::new(Code::Unavailable, format!("no pipe to copy over: {error}"));
    let (read, write) = pipe_with(PipeFlags::CLOEXEC).map_err(|error| failed(error.into()))?;
    let except = target.path.rsplit('/').next().unwrap_or_default().to_owned();
    let (pack, unpack) = (source_guest.number(), target_guest.number());
    let sending = source_guest.ask(pack, &Request::Pack { place: source, except }, &[write.as_fd()]).await?;
    let coming = target_guest.ask(unpack, &Request::Unpack { place: target, most }, &[read.as_fd()]).await?;
    drop((read, write));

    let both = async { tokio::join!(sending, coming) };
    tokio::pin!(both);
    let (packed, unpacked) = tokio::select! {
        both = &mut both => both,
        () = done.closed() => {
            // The stream ends too early, and who unpacks it takes away what is there.
            source_guest.tell(pack, &Request::Kill { exec: pack }, &[]).await?;
            if let Ok(both) = tokio::time::timeout(PATIENCE, &mut both).await {
                both
            } else {
                target_guest.tell(unpack, &Request::Kill { exec: unpack }, &[]).await?;
                both.await
            }
        }
    };
    answered(packed)?;
    match answered(unpacked) {
        Ok(Answer::Unpacked(bytes)) => Ok(bytes),
        Ok(_) => Err(odd()),
        Err(_) if to.full.load(Ordering::Acquire) => Err(full()),
        Err(error) => Err(error),
    }
}

fn answered(answer: std::result::Result<Received<Answer>, RecvError>) -> Result<Answer> {
    match answer.map_err(|_| gone())?.message {
        Answer::Failed(fault) => Err(error(fault)),
        answer => Ok(answer),
    }
}

/// How many bytes there is room for.
async fn room(to: &Arc<Inner>) -> Result<u64> {
    if to.full.load(Ordering::Acquire) {
        return Err(full());
    }
    let (files, most) = (to.directory.join("files"), layout::disk(&to.template));
    let (walks, entries) = (Arc::clone(&to.walks), layout::entries(&to.template));
    // What cannot be looked at, the watch will see.
    engine::block(move || Ok(most.saturating_sub(walks.usage(&files, entries).unwrap_or(0)))).await
}

fn full() -> Error {
    Error::new(Code::TooLarge, "the sandbox's disk is full: take files away first")
}
