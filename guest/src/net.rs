//! Sockets in the sandbox's own network, made for the host, which uses them from outside.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketFlags, SocketType, bind, connect as start, listen as open, socket_with,
};

use crate::message::{Code, Fault};

/// How many connections may wait to be taken.
const WAITING: i32 = 128;

/// A socket that listens at an address.
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

/// A socket on its way to an address. Whether it arrives is for the host to see: the guest waits for nobody.
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
