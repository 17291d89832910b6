//! Sockets: those in the sandbox's network that the host uses from outside, and the connection to a container's guest.

use std::net::{SocketAddr, TcpStream};
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketFlags, SocketType, bind, connect as start, listen as open, socket_with, sockopt,
};

use crate::message::{Code, Fault};

/// The backlog of a listening socket.
const WAITING: i32 = 128;

/// Returns a socket that listens on an address.
pub(crate) fn listen(at: SocketAddr) -> Result<OwnedFd, Fault> {
    let listening = || {
        let socket = create_socket(at)?;
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
        let socket = create_socket(to)?;
        match start(&socket, &to) {
            Ok(()) | Err(Errno::INPROGRESS) => Ok(socket),
            Err(error) => Err(error),
        }
    };
    connecting()
        .map_err(|error: Errno| Fault::new(Code::Unavailable, format!("{to} does not answer: {error}")))
}

fn create_socket(address: SocketAddr) -> rustix::io::Result<OwnedFd> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None)
}

/// Configures a connection of a container's guest, at either end: no delay on sending, and keepalive to detect a peer that vanished.
pub(crate) fn keep_alive(socket: &TcpStream) -> Result<(), Errno> {
    /// The idle time before the first keepalive probe, and the time between probes.
    const QUIET: Duration = Duration::from_secs(15);
    /// The number of probes.
    const TIMES: u32 = 4;
    /// How long sent data may stay unacknowledged, in milliseconds.
    const UNREAD: u32 = 60_000;
    rustix::io::ioctl_fionbio(socket, false)?;
    sockopt::set_tcp_nodelay(socket, true)?;
    sockopt::set_socket_keepalive(socket, true)?;
    sockopt::set_tcp_keepidle(socket, QUIET)?;
    sockopt::set_tcp_keepintvl(socket, QUIET)?;
    sockopt::set_tcp_keepcnt(socket, TIMES)?;
    sockopt::set_tcp_user_timeout(socket, UNREAD)
}
