//! Trees and archives as streams: one call of the guest, regardless of the number of files.

use std::sync::Arc;

use futures_util::StreamExt as _;
use futures_util::stream::try_unfold;
use koze_core::archive::pieces::Pieces;
use koze_core::archive::{Bytes, Contents, Tar};
use koze_core::error::{Code, Error, Result};
use koze_guest::calls::Event;
use koze_guest::request::{Request, Size};
use koze_protocol::Place;
use koze_protocol::operation::framed::Write;
use koze_protocol::operation::{Pack, Read};
use serde::de::{DeserializeOwned, IgnoredAny};

use super::EngineSandbox;
use super::inner::{Running, Use};
use crate::guest::{Call, parse_answer};

/// How much of an archive is passed on at once, in bytes.
const PART: usize = 1 << 20;
/// More than any file has.
const MAX_FILE: u64 = i64::MAX as u64;

/// A stream that comes out of a sandbox. Dropping it stops the guest.
#[derive(Debug)]
pub struct Outgoing {
    call: Call,
    /// The bytes that were returned, and that the guest may send again.
    unread: usize,
    _using: Use,
    _running: Arc<Running>,
}

/// A stream that goes into a sandbox. If it is dropped before its end is sent, the guest keeps nothing that is not whole.
#[derive(Debug)]
pub struct Incoming {
    call: Call,
    is_taken: bool,
    _using: Use,
    _running: Arc<Running>,
}

impl EngineSandbox {
    async fn open_call(&self, request: &Request) -> Result<(Call, Use, Arc<Running>)> {
        let using = self.0.using();
        let running = self.wake().await?;
        let call = running.connection.call(request)?;
        Ok((call, using, running))
    }

    async fn outgoing(&self, request: &Request) -> Result<Outgoing> {
        let (call, using, running) = self.open_call(request).await?;
        Ok(Outgoing { call, unread: 0, _using: using, _running: running })
    }

    async fn incoming(&self, request: &Request) -> Result<Incoming> {
        let (call, using, running) = self.open_call(request).await?;
        Ok(Incoming { call, is_taken: true, _using: using, _running: running })
    }

    /// Serializes a file or tree in the format of the guest. A final link is followed.
    ///
    /// # Errors
    /// The errors of the sandbox. Those of the files are in the stream.
    pub async fn pack_tree(&self, path: &str) -> Result<Outgoing> {
        let pack = Pack { root: "/".to_owned(), path: path.to_owned(), except: String::new() };
        self.outgoing(&Request::Pack(pack)).await
    }

    /// Creates the files of such a stream at a path that does not exist.
    ///
    /// # Errors
    /// The errors of the sandbox.
    pub async fn unpack_tree(&self, path: &str) -> Result<Incoming> {
        self.incoming(&Request::Unpack(whole(path))).await
    }

    /// Returns the content of a file.
    ///
    /// # Errors
    /// The errors of the sandbox.
    pub async fn read_stream(&self, path: &str) -> Result<Outgoing> {
        let (root, path) = ("/".to_owned(), path.to_owned());
        self.outgoing(&Request::Read(Read { root, path, offset: 0, limit: MAX_FILE })).await
    }

    /// Writes a file, and creates missing parent directories. The file is replaced at the end of the stream.
    ///
    /// # Errors
    /// The errors of the sandbox.
    pub async fn write_stream(&self, path: &str) -> Result<Incoming> {
        let (root, path) = ("/".to_owned(), path.to_owned());
        self.incoming(&Request::Write(Write { root, path, append: false, offset: None })).await
    }

    /// Returns how many bytes its files may have, as its profile declares.
    pub fn room(&self) -> u64 {
        u64::from(self.0.record().settings.profile.size.disk_mb) * 1_000_000
    }

    /// Archives a directory, in the pieces of the guest.
    ///
    /// # Errors
    /// The errors of the sandbox. Those of the files are in the stream.
    pub async fn pack_archive(&self, path: &str) -> Result<Outgoing> {
        self.outgoing(&Request::Archive(whole(path))).await
    }

    /// Creates the files of a tar archive that koze has written, in a directory that exists.
    ///
    /// # Errors
    /// The errors of the sandbox.
    pub async fn unpack_archive(&self, path: &str) -> Result<Incoming> {
        self.incoming(&Request::Extract(whole(path))).await
    }
}

fn whole(path: &str) -> Place {
    Place { root: "/".to_owned(), path: path.to_owned() }
}

impl Outgoing {
    /// Returns the next bytes, or `None` at the end.
    ///
    /// # Errors
    /// The errors of the sandbox.
    pub async fn next(&mut self) -> Result<Option<Vec<u8>>> {
        if self.unread > 0 {
            self.call.grant(1, std::mem::take(&mut self.unread));
        }
        loop {
            match self.call.next().await? {
                Event::Data(1, bytes) => {
                    self.unread = bytes.len();
                    return Ok(Some(bytes));
                }
                Event::Data(..) | Event::End(_) | Event::Credit(_) => {}
                Event::Answer(answer) => return parse_answer::<IgnoredAny>(answer).map(|_| None),
            }
        }
    }
}

impl Incoming {
    /// Writes bytes. Returns whether the guest wants more.
    ///
    /// # Errors
    /// The errors of the sandbox.
    pub async fn write(&mut self, bytes: &[u8]) -> Result<bool> {
        self.is_taken = self.is_taken && self.call.write(bytes).await?;
        Ok(self.is_taken)
    }

    /// Ends the stream of a tree, and returns the bytes of all files.
    ///
    /// # Errors
    /// The errors of the sandbox, and those of the stream's sender.
    pub async fn finish_tree(self) -> Result<u64> {
        Ok(self.finish::<Size>().await?.size)
    }

    /// Ends the content of a file, and returns its size.
    ///
    /// # Errors
    /// The errors of the sandbox.
    pub async fn finish_file(self) -> Result<u64> {
        self.finish_tree().await
    }

    /// Ends the stream of an archive, and returns what it contained.
    ///
    /// # Errors
    /// The errors of the sandbox, and of an archive that is not whole.
    pub async fn finish_archive(self) -> Result<Contents> {
        self.finish().await
    }

    async fn finish<T: DeserializeOwned>(self) -> Result<T> {
        if self.is_taken {
            self.call.end();
        }
        Ok(self.call.finish().await?.result)
    }
}

/// Copies a file or tree to a path that does not exist. Returns the bytes of all files.
pub(super) async fn copy(
    from: &EngineSandbox,
    source: Place,
    to: &EngineSandbox,
    target: Place,
) -> Result<u64> {
    let except = target.path.rsplit('/').next().unwrap_or_default().to_owned();
    let pack = Pack { root: source.root, path: source.path, except };
    let mut outgoing = from.outgoing(&Request::Pack(pack)).await?;
    let mut incoming = to.incoming(&Request::Unpack(target)).await?;
    // The errors of the source are part of the stream, so its receiver returns them.
    while let Some(bytes) = outgoing.next().await? {
        if !incoming.write(&bytes).await? {
            break;
        }
    }
    incoming.finish_tree().await
}

/// Returns a directory as an archive. Dropping it stops the guest.
pub(super) fn archive(from: EngineSandbox, place: Place) -> Tar {
    let begin = async move {
        let outgoing = from.outgoing(&Request::Archive(place)).await;
        outgoing.map(|outgoing| parts(outgoing, Pieces::default()))
    };
    let parts = futures_util::stream::once(begin).map(|begun| match begun {
        Ok(parts) => parts,
        Err(error) => Box::pin(futures_util::stream::once(async { Err(error) })) as Tar,
    });
    Box::pin(parts.flatten())
}

fn parts(outgoing: Outgoing, pieces: Pieces) -> Tar {
    Box::pin(try_unfold(Some((outgoing, pieces)), |state| async {
        let Some((mut outgoing, mut pieces)) = state else { return Ok(None) };
        let mut archive = Vec::new();
        while let Some(bytes) = outgoing.next().await? {
            pieces.add(&bytes, &mut archive)?;
            if archive.len() >= PART {
                return Ok(Some(((archive, Contents::default()), Some((outgoing, pieces)))));
            }
        }
        let contents = pieces.finish()?;
        Ok(Some(((archive, contents), None)))
    }))
}

/// Creates the files of an archive in a directory.
pub(super) async fn extract(to: &EngineSandbox, place: Place, mut tar: Bytes<'_>) -> Result<Contents> {
    let mut incoming = to.incoming(&Request::Extract(place)).await?;
    while let Some(bytes) = tar.next().await {
        if !incoming.write(&bytes?).await? {
            break;
        }
    }
    let contents = incoming.finish_archive().await?;
    match tar.next().await {
        None => Ok(contents),
        Some(_) => Err(Error::new(Code::InvalidInput, "the archive goes on after its end")),
    }
}
