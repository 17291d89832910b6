//! The streams of a sandbox as pipes, which other processes of this user can read and write.

use std::future::Future;
use std::io;
use std::os::fd::OwnedFd;

use koze_core::{Code, Error, Result};
use koze_engine::{Incoming, Outgoing};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::unix::pipe::{Receiver, Sender};
use tokio::sync::oneshot;

/// How much is copied at once, in bytes.
const COPIED: usize = 64 << 10;

/// The pending result of a task.
async fn result<T>(done: oneshot::Receiver<Result<T>>) -> Result<T> {
    done.await.unwrap_or_else(|_| {
        Err(Error::new(Code::Unavailable, "the supervisor of this session ended during the call"))
    })
}

/// Creates a pipe: the end to read from, and the one to write to.
pub(super) fn create_pipe() -> Result<(OwnedFd, OwnedFd)> {
    let (read, write) = io::pipe().map_err(no_pipe)?;
    Ok((read.into(), write.into()))
}

/// Returns the end of a pipe that this process reads.
pub(super) fn receiver(pipe: OwnedFd) -> Result<Receiver> {
    rustix::io::ioctl_fionbio(&pipe, true).map_err(|error| no_pipe(error.into()))?;
    Receiver::from_owned_fd(pipe).map_err(no_pipe)
}

/// Returns the end of a pipe that this process writes.
pub(super) fn sender(pipe: OwnedFd) -> Result<Sender> {
    rustix::io::ioctl_fionbio(&pipe, true).map_err(|error| no_pipe(error.into()))?;
    Sender::from_owned_fd(pipe).map_err(no_pipe)
}

pub(super) fn no_pipe(error: io::Error) -> Error {
    let message = format!("no pipe can be created for the sandbox: {error}");
    Error::new(Code::Unavailable, message).with_source(error)
}

/// Copies a stream of a sandbox to a pipe. Returns the end to read, and the result.
pub(super) fn pipe_out(
    mut outgoing: Outgoing,
) -> Result<(OwnedFd, impl Future<Output = Result<()>> + Send + 'static)> {
    let (read, write) = create_pipe()?;
    let mut write = sender(write)?;
    let (told, done) = oneshot::channel();
    tokio::spawn(async move {
        let copied = async {
            while let Some(bytes) = outgoing.next().await? {
                if write.write_all(&bytes).await.is_err() {
                    // Its reader is gone, and does not wait for the result.
                    return Ok(());
                }
            }
            Ok(())
        };
        let copied = copied.await;
        drop(write);
        let _ = told.send(copied);
    });
    Ok((read, result(done)))
}

/// Copies a pipe to a stream of a sandbox, which `finish` ends. Returns the end to write, and the result.
pub(super) fn pipe_in<T: Send + 'static, F: Future<Output = Result<T>> + Send>(
    mut incoming: Incoming,
    finish: impl FnOnce(Incoming) -> F + Send + 'static,
) -> Result<(OwnedFd, impl Future<Output = Result<T>> + Send + 'static)> {
    let (read, write) = create_pipe()?;
    let mut read = receiver(read)?;
    let (mut told, done) = oneshot::channel();
    tokio::spawn(async move {
        let copied = async {
            let mut buffer = vec![0; COPIED];
            loop {
                let length = read.read(&mut buffer).await.map_err(no_pipe)?;
                if length == 0 || !incoming.write(&buffer[..length]).await? {
                    return finish(incoming).await;
                }
            }
        };
        tokio::select! {
            copied = copied => drop(told.send(copied)),
            // Nobody waits any more: what is not whole is removed.
            () = told.closed() => {}
        }
    });
    Ok((write, result(done)))
}
