//! Sends messages between commands and the supervisor, as lines of JSON, and file descriptors.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::{FdFlags, fcntl_setfd};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{
    AsyncBufRead, AsyncBufReadExt as _, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, Interest,
};
use tokio::net::UnixStream;

/// The maximum length of a line in bytes, for the escaped input and output of a model.
const MAX_LINE: u64 = 512 << 20;

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

/// A peer that is gone is an error, and no signal; elsewhere the standard library ignores the signal.
#[cfg(target_os = "linux")]
const SENDING: SendFlags = SendFlags::NOSIGNAL;
#[cfg(not(target_os = "linux"))]
const SENDING: SendFlags = SendFlags::empty();
/// Programs that another thread starts do not inherit the descriptors; elsewhere this is set a moment later.
#[cfg(namespaces)]
const RECEIVING: RecvFlags = RecvFlags::CMSG_CLOEXEC;
#[cfg(not(namespaces))]
const RECEIVING: RecvFlags = RecvFlags::empty();

/// The maximum number of descriptors that are sent together: the standard streams of a program.
const MAX_DESCRIPTORS: usize = 3;

/// Sends file descriptors, at most three. The peer must not read anything else at the same time.
///
/// # Errors
/// Returns an error if the peer disconnected.
pub async fn send_descriptors(stream: &UnixStream, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    stream
        .async_io(Interest::WRITABLE, || {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
            let mut control = SendAncillaryBuffer::new(&mut space);
            if !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
                return Err(io::ErrorKind::InvalidInput.into());
            }
            rustix::net::sendmsg(stream.as_fd(), &[IoSlice::new(b"\n")], &mut control, SENDING)?;
            Ok(())
        })
        .await
}

/// Receives file descriptors, at most three.
///
/// # Errors
/// Returns an error if the peer disconnected or sent something else.
pub async fn receive_descriptors(stream: &UnixStream) -> io::Result<Vec<OwnedFd>> {
    stream
        .async_io(Interest::READABLE, || {
            let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
            let mut control = RecvAncillaryBuffer::new(&mut space);
            let mut byte = [0];
            rustix::net::recvmsg(stream.as_fd(), &mut [IoSliceMut::new(&mut byte)], &mut control, RECEIVING)?;
            let mut messages = control.drain();
            let Some(RecvAncillaryMessage::ScmRights(rights)) = messages.next() else {
                return Err(io::ErrorKind::InvalidData.into());
            };
            let received: Vec<OwnedFd> = rights.collect();
            for descriptor in &received {
                fcntl_setfd(descriptor, FdFlags::CLOEXEC)?;
            }
            Ok(received)
        })
        .await
}
