//! Files of a sandbox that commands read and write themselves: the supervisor passes them the open file.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use koze_core::files::http::{Conditions, Refused};
use koze_core::files::{self, Upload};
use koze_core::sandbox::Stat;
use koze_core::{Code, Error, Profiles, Result};
use tokio::io::{AsyncWriteExt as _, BufReader};
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::Mutex as AsyncMutex;

use super::client::{Client, Stream, odd, unreachable};
use super::host::Host;
use super::message::{Access, Answer, Ask, FileRequest};
use super::wire;
use crate::provider::{MachineProvider, MachineSandbox as _};

/// A file that is being written. Dropping it leaves the file at the path as it is.
#[derive(Debug)]
pub struct Writing {
    /// The new file, which has another path.
    pub file: File,
    /// How many bytes the sandbox has room for.
    pub room: u64,
    stream: Stream,
}

impl Client {
    /// Opens a file for reading, and describes it.
    ///
    /// # Errors
    /// Returns [`Code::NotFound`] if there is no such sandbox or file, and the errors of the sandbox and the supervisor.
    pub async fn read_file(&self, profiles: Profiles, sandbox: &str, path: &str) -> Result<(File, Stat)> {
        let request = FileRequest {
            profiles,
            sandbox: sandbox.to_owned(),
            path: path.to_owned(),
            access: Access::Read,
        };
        let mut stream = self.begin(Ask::File(request)).await?;
        match taken(&mut stream).await {
            Ok((file, Answer::Reading(stat))) => Ok((file, stat)),
            Err(Refused::Error(error)) => Err(error),
            _ => Err(odd()),
        }
    }

    /// Begins to write a file. [`Writing::finish`] puts it at its path. A new file gets the permission bits `mode`, if they are given.
    ///
    /// # Errors
    /// Returns [`Refused::Failed`] if the file does not meet the conditions, and the errors of the sandbox and the supervisor.
    pub async fn write_file(
        &self,
        profiles: Profiles,
        sandbox: &str,
        path: &str,
        conditions: Conditions,
        mode: Option<u32>,
    ) -> std::result::Result<Writing, Refused> {
        let access = Access::Write { conditions, mode };
        let request = FileRequest { profiles, sandbox: sandbox.to_owned(), path: path.to_owned(), access };
        let mut stream = self.begin(Ask::File(request)).await?;
        match taken(&mut stream).await? {
            (file, Answer::Writing { room }) => Ok(Writing { file, room, stream }),
            _ => Err(odd().into()),
        }
    }
}

impl Writing {
    /// Puts the file at its path. Returns its metadata, and whether it did not exist before.
    ///
    /// # Errors
    /// As [`Client::write_file`].
    pub async fn finish(mut self) -> std::result::Result<(Stat, bool), Refused> {
        send_confirmation(&mut self.stream).await?;
        match wire::receive::<Answer>(&mut self.stream).await {
            Ok(Some(Answer::Wrote { stat, is_new })) => Ok((stat, is_new)),
            Ok(Some(Answer::Unmet)) => Err(Refused::Failed),
            Ok(Some(Answer::Failed(error))) => Err(error.into()),
            Ok(Some(_)) => Err(odd().into()),
            Ok(None) | Err(_) => {
                let message = "the supervisor of this session ended during the call: the file may or may not be written";
                Err(Error::new(Code::Unavailable, message).into())
            }
        }
    }

    /// Returns the error for a write that failed because a disk or a quota is exhausted.
    pub fn no_space(kind: std::io::ErrorKind) -> Error {
        if kind == std::io::ErrorKind::StorageFull {
            return Error::new(Code::TooLarge, "the file does not fit: the disk of this machine is full");
        }
        Self::full()
    }

    /// Returns the error for more bytes than there is room for.
    pub fn full() -> Error {
        Error::new(Code::TooLarge, "the file does not fit on the sandbox's disk")
    }
}

/// Receives the answer to a request, and the file that comes with it.
pub(super) async fn taken(stream: &mut Stream) -> std::result::Result<(File, Answer), Refused> {
    let answer = match wire::receive::<Answer>(stream).await {
        Ok(Some(Answer::Failed(error))) => return Err(error.into()),
        Ok(Some(Answer::Unmet)) => return Err(Refused::Failed),
        Ok(Some(answer)) => answer,
        Ok(None) | Err(_) => return Err(odd().into()),
    };
    // The file is sent once nothing else can be read ahead of it.
    send_confirmation(stream).await?;
    let received = wire::receive_descriptors(stream.get_ref()).await.map_err(unreachable)?;
    let file = received.into_iter().next().ok_or_else(odd)?;
    Ok((File::from(file), answer))
}

pub(super) async fn send_confirmation(stream: &mut Stream) -> Result<()> {
    let sent = async {
        wire::send(stream, &true).await?;
        stream.flush().await
    };
    sent.await.map_err(unreachable)
}

/// Serves such a request. Returns the last answer, if there is one.
pub(super) async fn serve(
    host: &Host<impl MachineProvider>,
    request: FileRequest,
    mut read: BufReader<OwnedReadHalf>,
    write: &Arc<AsyncMutex<OwnedWriteHalf>>,
) -> Option<Answer> {
    match handle_request(host, request, &mut read, write).await {
        Ok(answer) => answer,
        Err(Refused::Failed) => Some(Answer::Unmet),
        Err(Refused::Error(error)) => Some(Answer::Failed(error)),
    }
}

async fn handle_request(
    host: &Host<impl MachineProvider>,
    FileRequest { profiles, sandbox, path, access }: FileRequest,
    read: &mut BufReader<OwnedReadHalf>,
    write: &Arc<AsyncMutex<OwnedWriteHalf>>,
) -> std::result::Result<Option<Answer>, Refused> {
    let session = host.session(profiles).await?;
    let (conditions, mode) = match access {
        Access::Read => {
            let sandbox = files::existing(&session, &sandbox).await?;
            let (file, stat) = sandbox.open_file(&path).await?;
            pass(&Answer::Reading(stat), &file, read, write).await;
            return Ok(None);
        }
        Access::Write { conditions, mode } => (conditions, mode),
    };
    let sandbox = session.sandbox(&sandbox).await?;
    let mut upload = Upload::begin(sandbox.clone(), &path, conditions).await?;
    if let Some(mode) = mode {
        upload.set_mode_of_new(mode);
    }
    let (new, room) = sandbox.create_file(upload.staging()).await.map_err(|error| upload.reworded(error))?;
    if !pass(&Answer::Writing { room }, &new, read, write).await {
        return Ok(None);
    }
    // If the client is gone, dropping the upload removes what it has written.
    if !matches!(wire::receive::<bool>(read).await, Ok(Some(true))) {
        return Ok(None);
    }
    sandbox.finish_file(&new).await.map_err(|error| upload.reworded(error))?;
    let (stat, is_new) = upload.finish_staged().await?;
    Ok(Some(Answer::Wrote { stat, is_new }))
}

/// Sends an answer and then a file. Returns whether the client has received them.
pub(super) async fn pass(
    answer: &Answer,
    file: &impl AsFd,
    read: &mut BufReader<OwnedReadHalf>,
    write: &Arc<AsyncMutex<OwnedWriteHalf>>,
) -> bool {
    pass_all(answer, &[file.as_fd()], read, write).await
}

/// The same for several files, at most three.
pub(super) async fn pass_all(
    answer: &Answer,
    files: &[BorrowedFd<'_>],
    read: &mut BufReader<OwnedReadHalf>,
    write: &Arc<AsyncMutex<OwnedWriteHalf>>,
) -> bool {
    let mut write = write.lock().await;
    wire::send(&mut *write, answer).await.is_ok()
        && matches!(wire::receive::<bool>(read).await, Ok(Some(true)))
        && wire::send_descriptors(write.as_ref(), files).await.is_ok()
}
