//! What commands and supervisor say to each other: lines of JSON, one request and its answers on each connection.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use koze_core::tool::Reply;
use koze_core::{Error, Images};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::io::{
    AsyncBufRead, AsyncBufReadExt as _, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, Interest,
};
use tokio::net::UnixStream;

use crate::mcp::offering::Offering;

/// The longest line in bytes: what a model writes, and what it gets, escaped.
const LONGEST: u64 = 512 << 20;

/// What a command asks for.
#[derive(Debug, Serialize, Deserialize)]
pub struct Request<A> {
    /// The program that asks: another one must not answer, for the two may not mean the same.
    pub program: String,
    /// What is to be done: an [`Ask`], which the supervisor looks at only where the program is its own.
    pub ask: A,
}

/// What is to be done.
#[derive(Debug, Serialize, Deserialize)]
pub enum Ask {
    /// Something that has one answer.
    Do(Act),
    /// Serve a client of the Model Context Protocol, whose streams come as descriptors once this has begun.
    Serve {
        /// What the project offers.
        offering: Offering,
    },
}

/// What has one answer.
#[derive(Debug, Serialize, Deserialize)]
pub enum Act {
    /// Call a tool.
    Call {
        /// The images of the project, as they are now.
        images: Images,
        /// The toolset, if it is not the project's default.
        toolset: Option<String>,
        /// The tool.
        tool: String,
        /// Its input.
        input: Value,
    },
    /// Destroy a sandbox.
    Destroy {
        /// Its name.
        name: String,
    },
    /// End.
    Stop,
}

/// What the supervisor answers: [`Answer::Begun`], then one of the others.
#[derive(Debug, Serialize, Deserialize)]
pub enum Answer {
    /// It has begun. Whoever gets nothing after this cannot know how much was done.
    Begun,
    /// The supervisor is of another program, and ends. Nothing was done.
    Stale,
    /// The reply of a tool, or its error.
    Replied(std::result::Result<Reply, Error>),
    /// The files of the project look different: what it offers now is to come on this connection.
    Changed,
    /// A client was served to its end, or why not.
    Served(std::result::Result<(), String>),
    /// A client was served for a while, and every answer given.
    HandedBack {
        /// What the client has said since.
        unread: Vec<u8>,
    },
    /// It is done.
    Done,
    /// It could not be done.
    Failed(Error),
}

/// Writes a line.
///
/// # Errors
/// Where the other side is gone.
pub async fn send(stream: &mut (impl AsyncWrite + Unpin), message: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    stream.write_all(&line).await
}

/// Reads a line; nothing where the other side has ended.
///
/// # Errors
/// Where the other side is gone, or what it says is no message.
pub async fn receive<T: DeserializeOwned>(stream: &mut (impl AsyncBufRead + Unpin)) -> io::Result<Option<T>> {
    let mut line = Vec::new();
    stream.take(LONGEST).read_until(b'\n', &mut line).await?;
    if line.last() == Some(&b'\n') { Ok(Some(serde_json::from_slice(&line)?)) } else { Ok(None) }
}

/// Hands two descriptors over. The other side must read nothing else meanwhile.
///
/// # Errors
/// Where the other side is gone.
pub async fn hand_over(stream: &UnixStream, descriptors: [BorrowedFd<'_>; 2]) -> io::Result<()> {
    stream
        .async_io(Interest::WRITABLE, || {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
            let mut control = SendAncillaryBuffer::new(&mut space);
            control.push(SendAncillaryMessage::ScmRights(&descriptors));
            rustix::net::sendmsg(stream.as_fd(), &[IoSlice::new(b"\n")], &mut control, SendFlags::NOSIGNAL)?;
            Ok(())
        })
        .await
}

/// Takes two descriptors.
///
/// # Errors
/// Where the other side is gone, or sent something else.
pub async fn take_over(stream: &UnixStream) -> io::Result<[OwnedFd; 2]> {
    stream
        .async_io(Interest::READABLE, || {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
            let mut control = RecvAncillaryBuffer::new(&mut space);
            let mut byte = [0];
            let flags = RecvFlags::CMSG_CLOEXEC;
            rustix::net::recvmsg(stream.as_fd(), &mut [IoSliceMut::new(&mut byte)], &mut control, flags)?;
            let came: Vec<OwnedFd> = control
                .drain()
                .flat_map(|message| match message {
                    RecvAncillaryMessage::ScmRights(rights) => rights.collect(),
                    _ => Vec::new(),
                })
                .collect();
            <[OwnedFd; 2]>::try_from(came).map_err(|_| io::ErrorKind::InvalidData.into())
        })
        .await
}
