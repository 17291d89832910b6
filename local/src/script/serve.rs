//! The process of scripts, in its sandbox.

use std::cell::RefCell;
use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use koze_script::frame::{self, Incoming};
use koze_script::native::{self, Received, Wire};
use koze_script::protocol::FromScript;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The maximum size of a packet. The socket preserves packet boundaries, so a receiver needs a buffer of this size.
pub(super) const PACKET: usize = 16 << 10;

/// Runs scripts until the host is gone.
pub(in super::super) fn serve_scripts(socket: OwnedFd) -> io::Result<()> {
    native::serve(Socket::new(socket)).map_err(|failure| io::Error::other(failure.message))
}

/// The socket to the host.
pub(super) struct Socket {
    socket: OwnedFd,
    incoming: RefCell<Incoming>,
}

/// The result of waiting for a message.
pub(super) enum Next<T> {
    /// A message.
    Message(T),
    /// Nothing within the time.
    Nothing,
    /// The host is gone.
    End,
}

impl Socket {
    pub(super) fn new(socket: OwnedFd) -> Self {
        Socket { socket, incoming: RefCell::default() }
    }

    /// Sends a message. If the host is gone, that is only noticed on the next receive.
    pub(super) fn send(&self, message: &impl Serialize) {
        let Ok(bytes) = frame::encode(message) else { return };
        for packet in bytes.chunks(PACKET) {
            let send = || rustix::net::send(&self.socket, packet, SendFlags::NOSIGNAL);
            if rustix::io::retry_on_intr(send).is_err() {
                return;
            }
        }
    }

    /// Waits for the next message, up to a timeout.
    pub(super) fn next<T: DeserializeOwned>(&self, time: Option<Duration>) -> Next<T> {
        let until = time.map(|time| Instant::now() + time);
        let mut incoming = self.incoming.borrow_mut();
        loop {
            match incoming.take() {
                Ok(Some(message)) => return Next::Message(message),
                Ok(None) => {}
                Err(_) => return Next::End,
            }
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            let left = left.and_then(|left| Timespec::try_from(left).ok());
            let mut ready = [PollFd::new(&self.socket, PollFlags::IN)];
            match poll(&mut ready, left.as_ref()) {
                Ok(0) => return Next::Nothing,
                Ok(_) => {}
                Err(Errno::INTR) => continue,
                Err(_) => return Next::End,
            }
            let mut packet = [0; PACKET];
            match rustix::net::recv(&self.socket, &mut packet, RecvFlags::empty()) {
                Ok((0, _)) => return Next::End,
                Ok((length, _)) => incoming.push(&packet[..length]),
                Err(Errno::INTR) => {}
                Err(_) => return Next::End,
            }
        }
    }
}

impl Wire for Socket {
    fn send(&self, message: FromScript) {
        Socket::send(self, &message);
    }

    fn receive(&self, time: Option<Duration>) -> Received {
        match self.next(time) {
            Next::Message(message) => Received::Message(message),
            Next::Nothing => Received::Nothing,
            Next::End => Received::End,
        }
    }
}
