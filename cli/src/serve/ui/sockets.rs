//! The addresses to listen on: both loopback addresses, because browsers try both for a name below `localhost`. If only one was
//! taken, another user of this machine could answer at the other one, and read the token of the URL.

use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use tokio::net::TcpListener;

/// How many free ports to try whose number is taken at the other address.
const ATTEMPTS: usize = 16;

/// Listens on a port of the loopback interface; 0 chooses a free one. Returns the port.
///
/// # Errors
/// Returns a message about the port.
pub(super) async fn bind_loopback(port: u16) -> Result<(Vec<TcpListener>, u16), String> {
    let attempts = if port == 0 { ATTEMPTS } else { 1 };
    let mut last = String::new();
    for _ in 0..attempts {
        match bind_both(port).await {
            Ok(bound) => return Ok(bound),
            Err(error) => last = format!("port {port} of the loopback interface cannot be used: {error}"),
        }
    }
    Err(format!("{last}. Choose another one with --port, or 0 for a free one"))
}

async fn bind_both(port: u16) -> io::Result<(Vec<TcpListener>, u16)> {
    let of = |address: IpAddr, port| SocketAddr::new(address, port);
    let mut listeners = vec![TcpListener::bind(of(Ipv4Addr::LOCALHOST.into(), port)).await?];
    let port = listeners[0].local_addr()?.port();
    match TcpListener::bind(of(Ipv6Addr::LOCALHOST.into(), port)).await {
        Ok(listener) => listeners.push(listener),
        Err(error) if error.kind() == ErrorKind::AddrInUse => return Err(error),
        // This machine has no IPv6, so nobody can listen there.
        Err(_) => {}
    }
    Ok((listeners, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_port_that_is_taken_at_one_address_is_not_used() {
        let (taken, port) = bind_loopback(0).await.unwrap();
        for address in taken.iter().map(|listener| listener.local_addr().unwrap()) {
            let other = TcpListener::bind(SocketAddr::new(address.ip(), 0)).await.unwrap();
            let port = other.local_addr().unwrap().port();
            let why = bind_loopback(port).await.unwrap_err();
            assert!(why.contains("cannot be used") && why.ends_with("0 for a free one"), "{why}");
        }
        assert!(bind_loopback(port).await.is_err());
    }
}
