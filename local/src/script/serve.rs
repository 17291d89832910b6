//! The process of scripts, in its sandbox.

use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use koze_script::frame::{self, Incoming};
use koze_script::native::{self, Received, Wire};
use koze_script::protocol::{FromScript, ToScript};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};

/// The maximum size of a packet. The socket preserves packet boundaries, so a receiver needs a buffer of this size.
pub(super) const PACKET: usize = 16 << 10;

/// Runs scripts until the host is gone.
pub(in super::super) fn serve(socket: OwnedFd) -> io::Result<()> {
    let wire = Socket { socket, incoming: std::cell::RefCell::default() };
    native::serve(wire).map_err(|failure| io::Error::other(failure.message))
}

struct Socket {
    socket: OwnedFd,
    incoming: std::cell::RefCell<Incoming>,
}

impl Wire for Socket {
    fn send(&self, message: FromScript) {
        let Ok(bytes) = frame::encode(&message) else { return };
        for packet in bytes.chunks(PACKET) {
            let send = || rustix::net::send(&self.socket, packet, SendFlags::NOSIGNAL);
            if rustix::io::retry_on_intr(send).is_err() {
                return;
            }
        }
    }

    fn receive(&self, time: Option<Duration>) -> Received {
        let until = time.map(|time| Instant::now() + time);
        let mut incoming = self.incoming.borrow_mut();
        loop {
            match incoming.take::<ToScript>() {
                Ok(Some(message)) => return Received::Message(message),
                Ok(None) => {}
                Err(_) => return Received::End,
            }
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            let left = left.and_then(|left| Timespec::try_from(left).ok());
            let mut ready = [PollFd::new(&self.socket, PollFlags::IN)];
            match poll(&mut ready, left.as_ref()) {
                Ok(0) => return Received::Nothing,
                Ok(_) => {}
                Err(Errno::INTR) => continue,
                Err(_) => return Received::End,
            }
            let mut packet = [0; PACKET];
            match rustix::net::recv(&self.socket, &mut packet, RecvFlags::empty()) {
                Ok((0, _)) => return Received::End,
                Ok((length, _)) => incoming.push(&packet[..length]),
                Err(Errno::INTR) => {}
                Err(_) => return Received::End,
            }
        }
    }
}
