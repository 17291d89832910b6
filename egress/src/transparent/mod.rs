//! The transparent proxy: connections of programs that know of no proxy, which the host has redirected here, and lookups of names.
//!
//! A lookup gets an address that stands for the name, and no name is resolved for it. A connection to such an address is a connection to
//! the name: it is judged, resolved, checked and recorded as a tunnel that a program requests with `CONNECT`.

mod names;
mod resolver;

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use tokio::net::{TcpListener, TcpStream};

use crate::accept;
use crate::idle::Idle;
use crate::listening::Tunnel;
use crate::proxy::IDLE;
use crate::reach::{Connected, Reach};
use koze_core::egress::Host;
use koze_state::Proof;

pub use self::names::Names;
pub use self::resolver::serve_lookups;

/// The port of the transparent proxy in a sandbox.
pub const PORT: u16 = 3129;
/// The address of the resolver in a sandbox.
pub const RESOLVER: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(127, 0, 0, 53)), 53);

/// The address of a sandbox, which stands for no name. With the address of the loopback interface only, the C library finds no IPv4
/// addresses for programs that ask for what the machine can use (`AI_ADDRCONFIG`).
pub const OWN_ADDRESS: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 0);

/// Returns the content of `/etc/resolv.conf` in a sandbox.
pub fn resolver_settings() -> String {
    format!(
        "# The resolver of koze, which answers for the hosts that the policy allows.\nnameserver {}\n",
        RESOLVER.ip()
    )
}

/// Serves the connections that a listener accepts. `destination` returns where a program wanted to connect to. Dropping the future closes
/// all connections.
pub async fn serve_redirected(
    listener: TcpListener,
    max_connections: usize,
    destination: fn(&TcpStream) -> io::Result<SocketAddr>,
    reach: Arc<Reach>,
    names: Arc<Names>,
) {
    accept::serve_each(listener, max_connections, |stream, proof| {
        serve_connection(stream, destination, proof, Arc::clone(&reach), Arc::clone(&names))
    })
    .await;
}

async fn serve_connection(
    stream: TcpStream,
    destination: fn(&TcpStream) -> io::Result<SocketAddr>,
    proof: Proof,
    reach: Arc<Reach>,
    names: Arc<Names>,
) {
    // Only programs in the sandbox can connect.
    proof.give();
    let Ok(to) = destination(&stream) else { return reset(&stream) };
    let address = to.ip().to_canonical();
    // A program has connected to the port itself.
    if address.is_loopback() {
        return reset(&stream);
    }
    let host = names.name_of(address).map_or(Host::Address(address), |name| Host::Name(name.to_string()));
    match reach.connect(&host.in_url(), to.port()).await {
        Ok(Connected { stream: server, host, entry }) => {
            let server = Idle::new(server, IDLE);
            Tunnel { reach, host, entry, server }.pass(Idle::new(stream, IDLE)).await;
        }
        Err(refusal) => {
            if let Some(refusals) = &reach.refusals {
                refusals.add(host.in_url(), to.port(), &refusal);
            }
            reset(&stream);
        }
    }
}

/// Resets a connection: a program that had already connected takes an orderly end for an empty answer.
fn reset(stream: &TcpStream) {
    let _ = stream.set_zero_linger();
}
