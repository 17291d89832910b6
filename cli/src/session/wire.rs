//! The messages between commands and the supervisor: lines of JSON, one request and its answers per connection.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use koze_core::sandbox::Stat;
use koze_core::sandbox::process::{Chunk, Stream};
use koze_core::tool::{Input, Reply};
use koze_core::{Error, Profiles};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::io::{
    AsyncBufRead, AsyncBufReadExt as _, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, Interest,
};
use tokio::net::UnixStream;

use super::files::FileRequest;
use super::trees::TreeRequest;

/// The maximum length of a line in bytes, for the escaped input and output of a model.
const MAX_LINE: u64 = 512 << 20;

/// A request of a command.
#[derive(Debug, Serialize, Deserialize)]
pub struct Request<A> {
    /// The requesting program. A different one must not answer, because the messages may have another meaning in it.
    pub program: String,
    /// The request: an [`Ask`], which the supervisor parses only if it runs the same program.
    pub ask: A,
}

/// A request.
#[derive(Debug, Serialize, Deserialize)]
pub enum Ask {
    /// A request with a single answer.
    Do(Act),
    /// Open a file.
    File(FileRequest),
    /// Copy a tree.
    Tree(TreeRequest),
}

/// A request with a single answer.
#[derive(Debug, Serialize, Deserialize)]
pub enum Act {
    /// Call a tool.
    Call {
        /// The current profiles of the project.
        profiles: Profiles,
        /// The toolset, if it is not the project's default.
        toolset: Option<String>,
        /// The tool.
        tool: String,
        /// The tool's input.
        input: Input,
        /// Whether to report what its programs print, with [`Answer::Printed`].
        progress: bool,
    },
    /// Copy a file or tree from one sandbox to another.
    Copy {
        /// The current profiles of the project.
        profiles: Profiles,
        /// The sandbox and the path of the file or tree.
        from: (String, String),
        /// The sandbox and the path of the copy.
        to: (String, String),
    },
    /// Destroy a sandbox.
    Destroy {
        /// The sandbox's name.
        name: String,
    },
    /// Exit.
    Stop,
}

/// An answer of the supervisor: first [`Answer::Begun`], then any number of [`Answer::Printed`], then one of the others.
#[derive(Debug, Serialize, Deserialize)]
pub enum Answer {
    /// The request was started. If the connection ends after this, its outcome is unknown.
    Begun,
    /// The supervisor runs another version of the program and exits. Nothing was done.
    Stale,
    /// A program of the call has printed something. The other answers follow.
    Printed {
        /// Whether to standard error.
        stderr: bool,
        /// What, as base64.
        data: String,
    },
    /// The reply of a tool, or its error.
    Replied(std::result::Result<Reply, Error>),
    /// A file is open for reading, and follows as a descriptor once the client has confirmed.
    Reading(Stat),
    /// The same for writing.
    Writing {
        /// How many bytes the sandbox has room for.
        room: u64,
    },
    /// A file was written.
    Wrote {
        /// Its metadata.
        stat: Stat,
        /// Whether it did not exist before.
        is_new: bool,
    },
    /// The stream of a tree follows as a descriptor once the client has confirmed.
    Tree,
    /// A directory was created from an archive.
    Extracted {
        /// Whether there was none before.
        is_new: bool,
    },
    /// A file does not meet the conditions of the request.
    Unmet,
    /// The request succeeded.
    Done,
    /// The request failed.
    Failed(Error),
}

impl Answer {
    /// Reports output of a program.
    pub(super) fn printed(chunk: Chunk) -> Self {
        Answer::Printed { stderr: chunk.stream == Stream::Stderr, data: STANDARD.encode(chunk.bytes) }
    }
}

/// Returns the output that [`Answer::Printed`] reports.
///
/// # Errors
/// Returns an error if the data is not base64.
pub(super) fn chunk(stderr: bool, data: &str) -> io::Result<Chunk> {
    let stream = if stderr { Stream::Stderr } else { Stream::Stdout };
    let bytes = STANDARD.decode(data).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
    Ok(Chunk { stream, bytes })
}

/// Writes a message as a line.
///
/// # Errors
/// Returns an error if the peer disconnected.
pub async fn send(stream: &mut (impl AsyncWrite + Unpin), message: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    stream.write_all(&line).await
}

/// Reads a message. Returns `None` at the end of the stream.
///
/// # Errors
/// Returns an error if the peer disconnected or sent something else.
pub async fn receive<T: DeserializeOwned>(stream: &mut (impl AsyncBufRead + Unpin)) -> io::Result<Option<T>> {
    let mut line = Vec::new();
    stream.take(MAX_LINE).read_until(b'\n', &mut line).await?;
    if line.last() == Some(&b'\n') { Ok(Some(serde_json::from_slice(&line)?)) } else { Ok(None) }
}

/// Sends a file descriptor. The peer must not read anything else at the same time.
///
/// # Errors
/// Returns an error if the peer disconnected.
pub async fn send_descriptor(stream: &UnixStream, descriptor: BorrowedFd<'_>) -> io::Result<()> {
    stream
        .async_io(Interest::WRITABLE, || {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
            let mut control = SendAncillaryBuffer::new(&mut space);
            let descriptors = [descriptor];
            control.push(SendAncillaryMessage::ScmRights(&descriptors));
            rustix::net::sendmsg(stream.as_fd(), &[IoSlice::new(b"\n")], &mut control, SendFlags::NOSIGNAL)?;
            Ok(())
        })
        .await
}

/// Receives a file descriptor.
///
/// # Errors
/// Returns an error if the peer disconnected or sent something else.
pub async fn receive_descriptor(stream: &UnixStream) -> io::Result<OwnedFd> {
    stream
        .async_io(Interest::READABLE, || {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
            let mut control = RecvAncillaryBuffer::new(&mut space);
            let mut byte = [0];
            let flags = RecvFlags::CMSG_CLOEXEC;
            rustix::net::recvmsg(stream.as_fd(), &mut [IoSliceMut::new(&mut byte)], &mut control, flags)?;
            let mut messages = control.drain();
            match messages.next() {
                Some(RecvAncillaryMessage::ScmRights(mut rights)) => rights.next(),
                _ => None,
            }
            .ok_or_else(|| io::ErrorKind::InvalidData.into())
        })
        .await
}
