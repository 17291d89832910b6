//! Trees that commands copy into sandboxes and out of them: the supervisor passes them one end of a pipe.

use std::fs::File;
use std::sync::Arc;

use koze_core::files::http::Refused;
use koze_core::path::absolute;
use koze_core::sandbox::Place;
use koze_core::{Profiles, Result, Sandbox as _, files, transfer};
use tokio::io::BufReader;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::Mutex as AsyncMutex;

use super::client::{Client, Stream, ended, odd};
use super::files::{pass, taken};
use super::host::Host;
use super::message::{Answer, Ask, TreeRequest, Way};
use super::wire;
use crate::provider::{MachineProvider, MachineSandbox as _, TreePipe};

/// A tree that is being copied.
#[derive(Debug)]
pub struct Copying {
    /// One end of its stream.
    pub pipe: File,
    stream: Stream,
}

impl Client {
    /// Begins to copy a tree.
    ///
    /// # Errors
    /// Returns the errors of the sandbox and the supervisor.
    pub async fn copy_tree(
        &self,
        profiles: Profiles,
        sandbox: &str,
        path: &str,
        way: Way,
    ) -> Result<Copying> {
        let request = TreeRequest { profiles, sandbox: sandbox.to_owned(), path: path.to_owned(), way };
        let mut stream = self.begin(Ask::Tree(request)).await?;
        match taken(&mut stream).await {
            Ok((pipe, Answer::Tree)) => Ok(Copying { pipe, stream }),
            Err(Refused::Error(error)) => Err(error),
            _ => Err(odd()),
        }
    }
}

impl Copying {
    /// Closes this end of the stream, and waits until the tree is copied.
    ///
    /// # Errors
    /// As [`Client::copy_tree`].
    pub async fn finish(self) -> Result<()> {
        match self.receive_answer().await? {
            Answer::Done => Ok(()),
            _ => Err(odd()),
        }
    }

    /// The same for an archive that comes into the sandbox. Returns whether there was no such directory before.
    ///
    /// # Errors
    /// As [`Client::copy_tree`].
    pub async fn finish_archive(self) -> Result<bool> {
        match self.receive_answer().await? {
            Answer::Extracted { is_new } => Ok(is_new),
            _ => Err(odd()),
        }
    }

    async fn receive_answer(self) -> Result<Answer> {
        let Copying { pipe, mut stream } = self;
        drop(pipe);
        match wire::receive::<Answer>(&mut stream).await {
            Ok(Some(Answer::Failed(error))) => Err(error),
            Ok(Some(answer)) => Ok(answer),
            Ok(None) | Err(_) => Err(ended()),
        }
    }
}

/// Serves such a request. Returns the last answer, if there is one.
pub(super) async fn serve(
    host: &Host<impl MachineProvider>,
    request: TreeRequest,
    mut read: BufReader<OwnedReadHalf>,
    write: &Arc<AsyncMutex<OwnedWriteHalf>>,
) -> Option<Answer> {
    match handle_request(host, request, &mut read, write).await {
        Ok(answer) => Some(answer),
        Err(error) => Some(Answer::Failed(error)),
    }
}

async fn handle_request(
    host: &Host<impl MachineProvider>,
    TreeRequest { profiles, sandbox, path, way }: TreeRequest,
    read: &mut BufReader<OwnedReadHalf>,
    write: &Arc<AsyncMutex<OwnedWriteHalf>>,
) -> Result<Answer> {
    let session = host.session(profiles).await?;
    let path = absolute(&path)?;
    if let Way::Out | Way::ArchiveOut = way {
        let sandbox = files::existing(&session, &sandbox).await?;
        let packing = match way {
            Way::Out => sandbox.pack_tree(&path).await,
            _ => sandbox.pack_archive(&path).await,
        };
        let TreePipe { pipe, done } = packing?;
        pass(&Answer::Tree, &pipe, read, write).await;
        drop(pipe);
        return done.await.map(|()| Answer::Done);
    }
    let sandbox = session.sandbox(&sandbox).await?;
    let into = sandbox.clone();
    if let Way::ArchiveIn(existing) = way {
        let create = |staging: String| async move {
            let TreePipe { pipe, done } = into.unpack_archive(&staging).await?;
            pass(&Answer::Tree, &pipe, read, write).await;
            drop(pipe);
            done.await
        };
        let is_new = files::assemble(&sandbox, &path, existing, create).await?;
        return Ok(Answer::Extracted { is_new });
    }
    if way == Way::NewArchive {
        let create = |staging: String| async move {
            into.make_dir(Place { root: "/", path: &staging }).await?;
            let TreePipe { pipe, done } = into.unpack_archive(&staging).await?;
            pass(&Answer::Tree, &pipe, read, write).await;
            drop(pipe);
            done.await.map(|()| 0)
        };
        return transfer::assemble(&sandbox, &path, true, create).await.map(|_| Answer::Done);
    }
    let create = |staging: String| async move {
        let TreePipe { pipe, done } = into.unpack_tree(&staging).await?;
        // A client that is gone has written nothing, which the sandbox reports.
        pass(&Answer::Tree, &pipe, read, write).await;
        drop(pipe);
        done.await
    };
    transfer::assemble(&sandbox, &path, true, create).await.map(|_| Answer::Done)
}

/// Copies a file or tree from one sandbox of the session to another.
pub(super) async fn between(
    host: &Host<impl MachineProvider>,
    profiles: Profiles,
    from: &(String, String),
    to: &(String, String),
) -> Result<()> {
    let session = host.session(profiles).await?;
    let source = files::existing(&session, &from.0).await?;
    let target = session.sandbox(&to.0).await?;
    transfer::transfer(&source, &from.1, &target, &to.1, true).await.map(drop)
}
