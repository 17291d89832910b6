//! Messages and file descriptors over a `SOCK_SEQPACKET` socket: one message per packet. A message that is too long for
//! a packet is passed in a memory file, as the last descriptor; the packet then contains only its length.

use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;

use rustix::fs::{FileType, MemfdFlags};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::message::{decode, encode, length};

/// The maximum length of a packet. A socket buffers about 200 KiB over all its packets.
const PACKET: usize = 32 << 10;
/// The maximum number of descriptors per message, including the memory file.
pub(crate) const DESCRIPTORS: usize = 32;

/// A received message.
#[derive(Debug)]
pub struct Received<T> {
    /// The number of the call.
    pub number: u64,
    /// The message.
    pub message: T,
    /// The descriptors that were passed with it.
    pub descriptors: Vec<OwnedFd>,
}

/// An encoded message. It can be sent repeatedly, because a non-blocking socket may be full.
#[derive(Debug)]
pub struct Packet {
    bytes: Vec<u8>,
    spilled: Option<OwnedFd>,
}

impl Packet {
    /// Encodes a message.
    ///
    /// # Errors
    /// If the message is too long, or memory runs out.
    pub fn new<T: Serialize>(number: u64, message: &T) -> io::Result<Self> {
        let mut bytes = encode(number, message)?;
        if bytes.len() <= PACKET {
            return Ok(Packet { bytes, spilled: None });
        }
        let memory = File::from(rustix::fs::memfd_create("koze", MemfdFlags::CLOEXEC)?);
        memory.write_all_at(&bytes[4..], 0)?;
        bytes.truncate(4);
        Ok(Packet { bytes, spilled: Some(memory.into()) })
    }

    /// Sends the message.
    ///
    /// # Errors
    /// The errors of the socket.
    pub fn send(&self, socket: impl AsFd, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
        let mut all = descriptors.to_vec();
        all.extend(self.spilled.as_ref().map(AsFd::as_fd));
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !all.is_empty() && !control.push(SendAncillaryMessage::ScmRights(&all)) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "too many descriptors"));
        }
        rustix::io::retry_on_intr(|| {
            let parts = [IoSlice::new(&self.bytes)];
            rustix::net::sendmsg(&socket, &parts, &mut control, SendFlags::NOSIGNAL)
        })?;
        Ok(())
    }
}

/// Encodes and sends a message.
///
/// # Errors
/// The errors of [`Packet`].
pub fn send<T: Serialize>(
    socket: impl AsFd,
    number: u64,
    message: &T,
    descriptors: &[BorrowedFd<'_>],
) -> io::Result<()> {
    Packet::new(number, message)?.send(socket, descriptors)
}

/// Receives messages from a socket.
#[derive(Debug)]
pub struct Receiver {
    /// The buffer for one packet.
    packet: Box<[u8]>,
}

impl Default for Receiver {
    fn default() -> Self {
        Receiver { packet: vec![0; PACKET].into() }
    }
}

/// Receives one message. Returns `None` if the peer has closed the socket.
///
/// # Errors
/// The errors of [`Receiver::receive`].
pub fn receive<T: DeserializeOwned>(socket: impl AsFd) -> io::Result<Option<Received<T>>> {
    Receiver::default().receive(socket)
}

impl Receiver {
    /// Receives the next message. Returns `None` if the peer has closed the socket.
    ///
    /// # Errors
    /// The errors of the socket, and an invalid message.
    pub fn receive<T: DeserializeOwned>(&mut self, socket: impl AsFd) -> io::Result<Option<Received<T>>> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let came = rustix::io::retry_on_intr(|| {
            let mut parts = [IoSliceMut::new(&mut self.packet)];
            rustix::net::recvmsg(&socket, &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC)
        })?;
        if came.bytes == 0 {
            return Ok(None);
        }
        let mut descriptors = Vec::new();
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(rights) = message {
                descriptors.extend(rights);
            }
        }
        let bad = |text| io::Error::new(io::ErrorKind::InvalidData, text);
        if came.flags.intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC) {
            return Err(bad("a packet was cut"));
        }
        let packet = &self.packet[..came.bytes];
        let length = length(packet)?;
        let mut spilled = Vec::new();
        let body = if packet.len() == 4 && length > 0 {
            let memory = descriptors.pop().ok_or_else(|| bad("a long message lacks its memory file"))?;
            // Reading from anything but a regular file might never end.
            if FileType::from_raw_mode(rustix::fs::fstat(&memory)?.st_mode) != FileType::RegularFile {
                return Err(bad("a long message is not in a file"));
            }
            spilled.resize(length, 0);
            File::from(memory).read_exact_at(&mut spilled, 0)?;
            &spilled[..]
        } else {
            &packet[4..]
        };
        if body.len() != length {
            return Err(bad("a packet's length is wrong"));
        }
        let (number, message) = decode(body)?;
        Ok(Some(Received { number, message, descriptors }))
    }
}

#[cfg(test)]
mod tests {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    use super::*;
    use crate::message::{Place, Request};

    #[test]
    fn messages_of_any_length_and_their_descriptors() {
        let (here, there) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
        let null = File::open("/dev/null").unwrap();
        for size in [0, 10, PACKET - 20, PACKET, 3_000_000] {
            let request = Request::Stat(Place { root: "/".into(), path: "x".repeat(size) });
            send(&here, 9, &request, &[null.as_fd(), null.as_fd()]).unwrap();
            let came: Received<Request> = receive(&there).unwrap().unwrap();
            assert_eq!((came.number, came.descriptors.len()), (9, 2), "{size}");
            assert!(came.message == request, "{size}");
        }
        drop(here);
        assert!(receive::<Request>(&there).unwrap().is_none());
    }
}
