//! Directories as tar archives, and back: one stream of the object, regardless of the number of files, because Cloudflare
//! limits the number of calls per request.

mod pipe;

use std::pin::pin;

use futures_util::future::{Either, ready, select};
use futures_util::stream::{StreamExt as _, once, try_unfold};
use worker::send::{SendFuture, SendWrapper};

use self::pipe::{Pipe, Reading};
use super::CloudflareSandbox;
use super::call;
use super::contract::{self, Path};
use super::object::{Answer, Refused, WITHIN, wrong_reply};
use super::stream::TIMEOUT;
use super::waiting::Waiting;
use koze_core::archive::pieces::Pieces;
use koze_core::archive::{self as by_operations, Bytes, Contents, Tar};
use koze_core::error::{Error, Result};
use koze_core::sandbox::Place;

/// How much of an archive is collected before it is passed on, in bytes. Each part costs calls to JavaScript, and an error
/// before the first part can still be reported as the error of the whole archive.
const PART: usize = 128 << 10;

/// Returns a directory as an archive. Dropping the stream cancels it.
pub(super) fn pack(from: CloudflareSandbox, place: Path) -> Tar {
    let archive = SendFuture::new(async move {
        match from.ask(call::archive(&place, WITHIN)).await.and_then(reading) {
            Ok(reading) => read(reading),
            Err(Refused::Unstreamed) => by_operations::pack(from, place.path),
            Err(refused) => Box::pin(once(ready(Err(Error::from(refused))))) as Tar,
        }
    });
    Box::pin(once(archive).flatten())
}

/// Reads the archive of an object.
fn reading(packed: contract::Packed) -> Answer<Reading> {
    Reading::new(packed.stream).ok_or_else(|| wrong_reply("archive", &"the stream has no bytes"))
}

fn read(reading: Reading) -> Tar {
    let state = SendWrapper::new((reading, Pieces::default()));
    Box::pin(try_unfold(Some(state), |state| {
        SendFuture::new(async move {
            let Some(SendWrapper((mut reading, mut pieces))) = state else { return Ok(None) };
            let mut archive = Vec::new();
            loop {
                let Some(bytes) = reading.next().await? else {
                    let contents = pieces.finish()?;
                    return Ok(Some(((archive, contents), None)));
                };
                pieces.add(&bytes, &mut archive)?;
                if archive.len() >= PART {
                    let state = SendWrapper::new((reading, pieces));
                    return Ok(Some(((archive, Contents::default()), Some(state))));
                }
            }
        })
    }))
}

/// Creates the files of an archive in a directory.
pub(super) async fn unpack(to: &CloudflareSandbox, place: Place<'_>, tar: Bytes<'_>) -> Result<Contents> {
    let directory = place.owned();
    let mut object = to.object().clone();
    // A stream cannot be sent twice, so a first call finds out whether the class and the container support archives. It also
    // starts the container.
    let mut begun = object.call(call::archive(&directory, WITHIN)).await;
    if matches!(begun, Err(Refused::Unopened)) {
        object = to.open().await?;
        begun = object.call(call::archive(&directory, WITHIN)).await;
    }
    match begun.and_then(reading) {
        // Dropping it cancels the archive.
        Ok(reading) => drop(reading),
        Err(Refused::Unstreamed) => return by_operations::unpack(to, place.path, tar).await,
        Err(refused) => return Err(refused.into()),
    }
    let Path { root, path } = directory;
    let unpack = contract::Unpack { root, path, call: to.call_name() };
    let pipe = Pipe::new()?;
    // Dropped together with this call, which cancels the receiver.
    let waiting = Waiting::new();
    let readable = pipe.readable();
    let call = pin!(object.call(call::extract(&unpack, &readable, waiting.function(), TIMEOUT)));
    let (sent, extracted) = match select(call, pin!(send(pipe, tar))).await {
        // If the call fails, the rest of the archive is not read.
        Either::Left((extracted, sent)) => {
            let extracted = extracted?;
            (sent.await, Ok(extracted))
        }
        Either::Right((sent, call)) => (sent, call.await),
    };
    // If the source failed, its error is the cause.
    let is_whole = sent?;
    let contract::Extracted { entries, bytes } = extracted?;
    if !is_whole {
        return Err(wrong_reply("extract", &"the archive was not read to its end").into());
    }
    Ok(Contents { entries, bytes, skipped: 0 })
}

/// Sends an archive. Returns whether all of it was read.
async fn send(mut pipe: Pipe, mut tar: Bytes<'_>) -> Result<bool> {
    let mut part = Vec::new();
    while let Some(bytes) = tar.next().await {
        part.extend(bytes?);
        if part.len() >= PART {
            if !pipe.write(&part).await {
                return Ok(false);
            }
            part.clear();
        }
    }
    let is_read = part.is_empty() || pipe.write(&part).await;
    Ok(is_read && pipe.close().await)
}
