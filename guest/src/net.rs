//! Creates sockets in the sandbox's network for the host to use from outside.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketFlags, SocketType, bind, connect as start, listen as open, socket_with,
};

use crate::message::{Code, Fault};

/// The backlog of a listening socket.
const WAITING: i32 = 128;

/// Returns a socket that listens on an address.
pub(crate) fn listen(at: SocketAddr) -> Result<OwnedFd, Fault> {
    let listening = || {
        let socket = socket(at)?;
        bind(&socket, &at)?;
        open(&socket, WAITING)?;
        Ok(socket)
    };
    listening()
        .map_err(|error: Errno| Fault::new(Code::Unavailable, format!("cannot listen on {at}: {error}")))
}

/// Returns a socket that is connecting to an address. The host waits for the result, so that the guest never blocks.
pub(crate) fn connect(to: SocketAddr) -> Result<OwnedFd, Fault> {
    let connecting = || {
        let socket = socket(to)?;
        match start(&socket, &to) {
            Ok(()) | Err(Errno::INPROGRESS) => Ok(socket),
            Err(error) => Err(error),
        }
    };
    connecting()
        .map_err(|error: Errno| Fault::new(Code::Unavailable, format!("{to} does not answer: {error}")))
}

fn socket(address: SocketAddr) -> rustix::io::Result<OwnedFd> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None)
}
