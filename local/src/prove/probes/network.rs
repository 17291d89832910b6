//! The host's network.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr as UnixAddr, UnixStream};
use std::time::Duration;

use rustix::net::{AddressFamily, SocketType, socket};

use super::Target;

pub(super) fn tcp(target: &Target) -> io::Result<()> {
    let hosts = [Ipv4Addr::LOCALHOST.into(), Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::LOCALHOST.into()];
    let mut last = Ok(());
    for host in hosts {
        let address = SocketAddr::new(host, target.port);
        last = TcpStream::connect_timeout(&address, Duration::from_secs(5)).map(drop);
        if last.is_ok() {
            break;
        }
    }
    last
}

pub(super) fn abstract_socket(target: &Target) -> io::Result<()> {
    UnixStream::connect_addr(&UnixAddr::from_abstract_name(&target.abstract_name)?).map(drop)
}

/// `AF_VSOCK`, for example, is not confined by network namespaces.
pub(super) fn families(_: &Target) -> io::Result<()> {
    let plain = [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK];
    let mut last = Ok(());
    for family in (1..46).filter(|family| !plain.contains(family)) {
        let family = AddressFamily::from_raw(family.try_into().unwrap_or_default());
        for kind in [SocketType::STREAM, SocketType::DGRAM, SocketType::SEQPACKET, SocketType::RAW] {
            last = socket(family, kind, None).map(drop);
            if last.is_ok() {
                return Ok(());
            }
        }
    }
    Ok(last?)
}
