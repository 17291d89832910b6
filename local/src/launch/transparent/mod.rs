//! The network of a sandbox whose policy allows hosts: a default route over the loopback interface, and rules that redirect every TCP
//! connection to a socket that koze serves from outside. Programs need no settings for a proxy. There is still no interface that
//! leads out of the sandbox.

mod netlink;
mod rules;

use std::fs;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};

use koze_egress::transparent::{OWN_ADDRESS, PORT, RESOLVER};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, listen, netlink as family, socket_with};
use serde::{Deserialize, Serialize};

/// The backlog of the listeners.
const BACKLOG: i32 = 128;
/// How long the kernel remembers a redirected connection that has ended, in seconds. Its default is two minutes, in which a program
/// could fill the table that all sandboxes share.
const TIME_WAIT: &str = "5";

/// The sockets of a sandbox that koze serves from outside.
#[derive(Debug)]
pub(crate) struct Sockets {
    /// Accepts the redirected connections: one for IPv4, and one for IPv6 if the machine has it.
    pub(crate) listeners: Vec<OwnedFd>,
    /// Receives the lookups of names.
    pub(crate) resolver: OwnedFd,
}

/// The result of the setup, for the host. The descriptors of the sockets are passed with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Setup {
    /// It was not requested.
    Off,
    /// This many sockets are passed before all other descriptors: the resolver, and the listeners.
    Done(usize),
    /// The kernel refused it with this error number.
    Refused(i32),
}

/// Returns what the host is told, and the sockets.
pub(super) fn describe(network: Option<io::Result<Sockets>>) -> (Setup, Option<Sockets>) {
    match network {
        None => (Setup::Off, None),
        Some(Ok(sockets)) => (Setup::Done(sockets.descriptors().count()), Some(sockets)),
        Some(Err(error)) => (Setup::Refused(error.raw_os_error().unwrap_or(libc::EIO)), None),
    }
}

/// Opens the socket for the rules. The system call filter denies it later.
pub(super) fn open_netfilter() -> Option<OwnedFd> {
    socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, Some(family::NETFILTER)).ok()
}

/// Sets up the network. Without the rules, there is no route either, so that connections still fail at once.
pub(super) fn set_up(netfilter: Option<OwnedFd>) -> io::Result<Sockets> {
    let netfilter = netfilter.ok_or(Errno::PROTONOSUPPORT)?;
    let v4 = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), PORT);
    let v6 = SocketAddr::new(Ipv6Addr::LOCALHOST.into(), PORT);
    let resolver = open_socket(RESOLVER, SocketType::DGRAM)?;
    let mut listeners = vec![open_listener(v4)?];
    let has_v6 = open_listener(v6).map(|listener| listeners.push(listener)).is_ok();
    netlink::apply_rules(netfilter.as_fd(), rules::redirect_rules())?;
    netlink::add_address(OWN_ADDRESS)?;
    netlink::add_default_route(Ipv4Addr::LOCALHOST.into())?;
    if has_v6 {
        // Names have no IPv6 addresses here. Without the route, connections to literal ones fail at once.
        let _ = netlink::add_default_route(Ipv6Addr::LOCALHOST.into());
    }
    // Where `/proc/sys` is read-only, the default remains.
    let _ = fs::write("/proc/sys/net/netfilter/nf_conntrack_tcp_timeout_time_wait", TIME_WAIT);
    Ok(Sockets { listeners, resolver })
}

fn open_listener(at: SocketAddr) -> io::Result<OwnedFd> {
    let socket = open_socket(at, SocketType::STREAM)?;
    listen(&socket, BACKLOG)?;
    Ok(socket)
}

fn open_socket(at: SocketAddr, kind: SocketType) -> io::Result<OwnedFd> {
    let family = if at.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = socket_with(family, kind, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None)?;
    bind(&socket, &at)?;
    Ok(socket)
}

impl Sockets {
    /// Returns the descriptors that are passed to the host.
    pub(super) fn descriptors(&self) -> impl Iterator<Item = &OwnedFd> {
        std::iter::once(&self.resolver).chain(&self.listeners)
    }

    /// Takes them from the descriptors that the sandbox has passed.
    ///
    /// # Errors
    /// The kernel's error, if it refused the setup.
    pub(super) fn take(setup: Setup, passed: &mut impl Iterator<Item = OwnedFd>) -> io::Result<Option<Self>> {
        let count = match setup {
            Setup::Off => return Ok(None),
            Setup::Done(count) => count,
            Setup::Refused(errno) => return Err(io::Error::from_raw_os_error(errno)),
        };
        let mut all = passed.take(count);
        let resolver = all.next().ok_or(io::ErrorKind::InvalidData)?;
        Ok(Some(Sockets { resolver, listeners: all.collect() }))
    }
}
