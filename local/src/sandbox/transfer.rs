//! Copies a file or tree from one sandbox to another as a stream over a pipe. One guest writes it, the other reads it,
//! each with only the rights of its sandbox. The data does not pass through this process.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use koze_guest::channel::Received;
use koze_guest::message::{Answer, Place, Request};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use tokio::sync::oneshot;
use tokio::sync::oneshot::error::RecvError;

use super::inner::{Inner, Use};
use super::limits;
use crate::engine::{self, engine};
use crate::errors::{convert_fault, disk_full, gone_error, unexpected_answer};
use koze_core::archive::Contents;
use koze_core::error::{Code, Error, Result};

/// How long the guests may take to clean up after a cancellation.
const GRACE_PERIOD: Duration = Duration::from_secs(5);

/// Copies, and returns the total size of the files. If the caller stops waiting, the partial copy is removed.
pub(crate) async fn copy_tree(
    from: &Arc<Inner>,
    source: Place,
    to: &Arc<Inner>,
    target: Place,
) -> Result<u64> {
    let (done, copied) = oneshot::channel();
    let (from, to) = (Arc::clone(from), Arc::clone(to));
    engine()?.spawn(async move {
        let mut done = done;
        let result = run_copy(&from, source, &to, target, &mut done).await;
        let _ = done.send(result);
    });
    copied.await.map_err(|_| gone_error())?
}

async fn run_copy(
    from: &Arc<Inner>,
    source: Place,
    to: &Arc<Inner>,
    target: Place,
    done: &mut oneshot::Sender<Result<u64>>,
) -> Result<u64> {
    let _using = (from.using(), to.using());
    let (source_guest, target_guest) = (from.wake().await?, to.wake().await?);
    let most = remaining_room(to).await?;
    let (read, write) = create_pipe()?;
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
            // The stream ends early, and the receiving guest removes the partial copy.
            source_guest.send_request(pack, &Request::Kill { exec: pack }, &[]).await?;
            if let Ok(both) = tokio::time::timeout(GRACE_PERIOD, &mut both).await {
                both
            } else {
                target_guest.send_request(unpack, &Request::Kill { exec: unpack }, &[]).await?;
                both.await
            }
        }
    };
    expect_answer(packed)?;
    unpacked_bytes(to, unpacked)
}

/// The pending result of a stream.
#[derive(Debug)]
pub struct Outcome {
    sandbox: Arc<Inner>,
    answer: oneshot::Receiver<Received<Answer>>,
    _using: Use,
}

/// Lets a guest serialize a file or tree. Returns the pipe to read from. Errors are part of the stream. The guest stops when
/// the pipe is closed.
pub(crate) async fn pack_tree(from: &Arc<Inner>, place: Place, except: String) -> Result<(OwnedFd, Outcome)> {
    let using = from.using();
    let guest = from.wake().await?;
    let (read, write) = create_pipe()?;
    let answer = guest.ask(guest.number(), &Request::Pack { place, except }, &[write.as_fd()]).await?;
    Ok((read, Outcome { sandbox: Arc::clone(from), answer, _using: using }))
}

/// Lets a guest create the files of a stream. Returns the pipe to write to. If it is closed early, nothing is kept.
pub(crate) async fn unpack_tree(to: &Arc<Inner>, place: Place) -> Result<(OwnedFd, Outcome)> {
    let using = to.using();
    let guest = to.wake().await?;
    let most = remaining_room(to).await?;
    let (read, write) = create_pipe()?;
    let answer = guest.ask(guest.number(), &Request::Unpack { place, most }, &[read.as_fd()]).await?;
    Ok((write, Outcome { sandbox: Arc::clone(to), answer, _using: using }))
}

impl Outcome {
    pub(crate) fn new(sandbox: Arc<Inner>, answer: oneshot::Receiver<Received<Answer>>, using: Use) -> Self {
        Outcome { sandbox, answer, _using: using }
    }

    /// Waits until the files of an archive are created. Returns what it contained.
    ///
    /// # Errors
    /// The errors of the sandbox, and of an archive that is not complete.
    pub async fn extracted(self) -> Result<Contents> {
        match expect_answer(self.answer.await) {
            Ok(Answer::Extracted(contents)) => Ok(contents),
            Ok(_) => Err(unexpected_answer()),
            Err(_) if self.sandbox.full.load(Ordering::Acquire) => Err(disk_full()),
            Err(error) => Err(error),
        }
    }

    /// Waits until a stream is complete.
    ///
    /// # Errors
    /// The errors of the sandbox.
    pub async fn packed(self) -> Result<()> {
        expect_answer(self.answer.await).map(drop)
    }

    /// Waits until the files of a stream are created. Returns their total size.
    ///
    /// # Errors
    /// The errors of the sandbox and of the stream's sender.
    pub async fn unpacked(self) -> Result<u64> {
        unpacked_bytes(&self.sandbox, self.answer.await)
    }
}

pub(crate) fn create_pipe() -> Result<(OwnedFd, OwnedFd)> {
    let failed = |error: Errno| {
        let error = std::io::Error::from(error);
        Error::new(Code::Unavailable, format!("no pipe can be created for the copy: {error}"))
            .with_source(error)
    };
    pipe_with(PipeFlags::CLOEXEC).map_err(failed)
}

fn unpacked_bytes(to: &Inner, unpacked: std::result::Result<Received<Answer>, RecvError>) -> Result<u64> {
    match expect_answer(unpacked) {
        Ok(Answer::Unpacked(bytes)) => Ok(bytes),
        Ok(_) => Err(unexpected_answer()),
        Err(_) if to.full.load(Ordering::Acquire) => Err(disk_full()),
        Err(error) => Err(error),
    }
}

fn expect_answer(answer: std::result::Result<Received<Answer>, RecvError>) -> Result<Answer> {
    match answer.map_err(|_| gone_error())?.message {
        Answer::Failed(fault) => Err(convert_fault(fault)),
        answer => Ok(answer),
    }
}

/// Returns the remaining disk space in bytes.
pub(crate) async fn remaining_room(to: &Arc<Inner>) -> Result<u64> {
    if to.full.load(Ordering::Acquire) {
        return Err(disk_full());
    }
    let (files, most) = (to.directory.join("files"), limits::disk_limit(&to.settings));
    let (walks, entries) = (Arc::clone(&to.walks), limits::entry_limit(&to.settings));
    // If measuring fails, the watch enforces the limit.
    engine::run_blocking(move || Ok(most.saturating_sub(walks.usage(&files, entries).unwrap_or(0)))).await
}
