//! Directories of a sandbox as tar archives, and back: the guest reads and creates the files, in one call.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;

use futures_util::StreamExt as _;
use futures_util::stream::{BoxStream, once, unfold};
use koze_guest::message::{Place, Request};
use tokio::sync::mpsc;

use super::inner::Inner;
use super::transfer::{Outcome, create_pipe, remaining_room};
use crate::engine;
use koze_core::archive::{Bytes, Contents, Tar};
use koze_core::error::{Error, Result};
use koze_state::archives::{Part, read_pieces};

/// How many pieces of an archive wait to be taken.
const AHEAD: usize = 2;

/// Returns a directory as an archive. If it is not read any more, the guest stops.
pub(crate) fn pack_archive(from: Arc<Inner>, place: Place) -> Tar {
    let parts = async move {
        let started = engine::run_to_completion(async move {
            let (read, outcome) = start_packing(&from, place).await?;
            // The sandbox is in use until the end.
            forward_parts(read, move |end| {
                drop(outcome);
                end
            })
        });
        parts_of(started).await
    };
    Box::pin(once(parts).flatten())
}

/// Returns a directory of the host as an archive.
pub(crate) fn of_host(place: Place) -> Tar {
    let parts = async move {
        let started = engine::run_to_completion(async move {
            let (read, write) = create_pipe()?;
            engine::engine()?.spawn_blocking(move || {
                // Its errors are in the stream.
                let _ = koze_guest::archive::pack(&place, BufWriter::new(File::from(write)));
            });
            // The path in a message would be the host's.
            let unreadable = |error: Error| {
                Error::new(error.code, "the files of the snapshot cannot be read").with_source(error)
            };
            forward_parts(read, move |end| end.map_err(unreadable))
        });
        parts_of(started).await
    };
    Box::pin(once(parts).flatten())
}

/// Passes the stream of an archive on in parts, the last one through `finish`.
fn forward_parts(
    read: OwnedFd,
    finish: impl FnOnce(Result<Part>) -> Result<Part> + Send + 'static,
) -> Result<mpsc::Receiver<Result<Part>>> {
    let (to, parts) = mpsc::channel(AHEAD);
    engine::engine()?.spawn_blocking(move || {
        let send = |chunk| to.blocking_send(Ok((chunk, Contents::default()))).is_ok();
        // What it contains is known at its end.
        let _ = to.blocking_send(finish(read_pieces(File::from(read), send)));
    });
    Ok(parts)
}

/// Returns the parts of an archive as they arrive.
async fn parts_of(
    started: impl Future<Output = Result<mpsc::Receiver<Result<Part>>>>,
) -> BoxStream<'static, Result<Part>> {
    match started.await {
        Ok(parts) => unfold(parts, |mut parts| async { Some((parts.recv().await?, parts)) }).boxed(),
        Err(error) => once(async { Err(error) }).boxed(),
    }
}

/// Lets a guest archive a directory. Returns the pipe to read from, whose stream itself says how it ends.
pub(crate) async fn start_packing(from: &Arc<Inner>, place: Place) -> Result<(OwnedFd, Outcome)> {
    let using = from.using();
    let guest = from.wake().await?;
    let (read, write) = create_pipe()?;
    let answer = guest.ask(guest.number(), &Request::Archive(place), &[write.as_fd()]).await?;
    Ok((read, Outcome::new(Arc::clone(from), answer, using)))
}

/// Lets a guest create the files of an archive in a directory that exists. Returns the pipe to write to. If it is closed early, some of
/// them may be left.
pub(crate) async fn start_unpacking(to: &Arc<Inner>, place: Place) -> Result<(OwnedFd, Outcome)> {
    let using = to.using();
    let guest = to.wake().await?;
    let most = remaining_room(to).await?;
    let (read, write) = create_pipe()?;
    let request = Request::Extract { place, most };
    let answer = guest.ask(guest.number(), &request, &[read.as_fd()]).await?;
    Ok((write, Outcome::new(Arc::clone(to), answer, using)))
}

/// Creates the files of an archive in a directory.
pub(crate) async fn unpack_archive(to: Arc<Inner>, place: Place, mut tar: Bytes<'_>) -> Result<Contents> {
    let (pieces, mut coming) = mpsc::channel::<Vec<u8>>(AHEAD);
    let outcome = engine::run_to_completion(async move {
        let (write, outcome) = start_unpacking(&to, place).await?;
        engine::engine()?.spawn_blocking(move || {
            let mut write = File::from(write);
            while let Some(bytes) = coming.blocking_recv() {
                // The guest has stopped reading, and its answer says why.
                if write.write_all(&bytes).is_err() {
                    return;
                }
            }
        });
        Ok(outcome)
    })
    .await?;
    // If the caller is gone, the guest finds that the end of the archive is missing.
    let fed = async {
        while let Some(bytes) = tar.next().await {
            if pieces.send(bytes?).await.is_err() {
                break;
            }
        }
        Ok(())
    };
    let fed: Result<()> = fed.await;
    drop(pieces);
    let extracted = outcome.extracted().await;
    // If the archive broke off, the guest has created nothing more by now, and the cause is here.
    fed.and(extracted)
}
