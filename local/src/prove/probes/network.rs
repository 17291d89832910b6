//! The host's network.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr as UnixAddr, UnixStream};
use std::time::Duration;

use rustix::net::{AddressFamily, SocketType, socket};

use super::{ALLOWED_HOST, DENIED_HOST, Target, nothing};
use koze_egress::PORT;

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

/// Plain HTTP in a tunnel to a host that is allowed, for another host of the same server.
pub(super) fn host_in_tunnel(target: &Target) -> io::Result<()> {
    let time = Some(Duration::from_secs(10));
    let mut proxy = TcpStream::connect((Ipv4Addr::LOCALHOST, PORT))?;
    proxy.set_read_timeout(time)?;
    proxy.set_write_timeout(time)?;
    write!(proxy, "CONNECT {ALLOWED_HOST}:80 HTTP/1.1\r\nHost: {ALLOWED_HOST}:80\r\n\r\n")?;
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        proxy.read_exact(&mut byte)?;
        head.extend(byte);
    }
    write!(proxy, "GET / HTTP/1.1\r\nHost: {DENIED_HOST}\r\nConnection: close\r\n\r\n")?;
    let mut response = Vec::new();
    proxy.read_to_end(&mut response)?;
    let response = String::from_utf8_lossy(&response);
    if response.contains(&target.secret) {
        return Ok(());
    }
    Err(nothing(response.lines().next().unwrap_or("the tunnel was closed")))
}
