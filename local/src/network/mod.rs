//! Traffic in and out of a sandbox's network, which has only a loopback interface: the guest creates sockets there and
//! passes them to the host; those of redirected connections exist before it. The proxy and the previews are those of [`koze_egress`].

pub(super) mod fetch;
pub(super) mod preview;

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use koze_egress::Reach;
use koze_egress::accept::MAX_CONNECTIONS;
use koze_egress::transparent::{self, Names};
use koze_guest::message::Request;
use rustix::net::{AddressFamily, SocketType, sockopt};
use tokio::net::{TcpListener, TcpStream, UdpSocket};

use crate::engine::engine;
use crate::errors::unexpected_answer;
use crate::launch::Sockets;
use crate::sandbox::running::Running;
use koze_core::error::{Code, Error, Result};

/// How long a server in a sandbox may take to accept a connection.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Starts the proxy of a sandbox, and serves its redirected connections. Both stop with the sandbox.
pub(super) async fn start_proxy(running: &Running, reach: Reach) -> Result<()> {
    let listener = listen_in_sandbox(running, koze_egress::PORT).await?;
    let reach = Arc::new(reach);
    if let Some(sockets) = running.take_network() {
        serve_network(running, sockets, &reach)?;
    }
    spawn_until_end(running, koze_egress::serve_proxy(listener, MAX_CONNECTIONS, reach))
}

/// Serves the redirected connections and the lookups of a sandbox.
fn serve_network(running: &Running, sockets: Sockets, reach: &Arc<Reach>) -> Result<()> {
    let names = Arc::new(Names::default());
    let _registered = engine()?.enter();
    let resolver = UdpSocket::from_std(sockets.resolver.into()).map_err(|_| unexpected_answer())?;
    spawn_until_end(running, transparent::serve_lookups(resolver, Arc::clone(reach), Arc::clone(&names)))?;
    for listener in sockets.listeners {
        let listener = TcpListener::from_std(listener.into()).map_err(|_| unexpected_answer())?;
        let (reach, names) = (Arc::clone(reach), Arc::clone(&names));
        let serving =
            transparent::serve_redirected(listener, MAX_CONNECTIONS, find_destination, reach, names);
        spawn_until_end(running, serving)?;
    }
    Ok(())
}

/// Returns where a program connected to before the connection was redirected.
fn find_destination(stream: &TcpStream) -> io::Result<SocketAddr> {
    Ok(match stream.local_addr()? {
        SocketAddr::V4(_) => sockopt::ip_original_dst(stream)?.into(),
        SocketAddr::V6(_) => sockopt::ipv6_original_dst(stream)?.into(),
    })
}

/// Starts a task that stops with the sandbox.
fn spawn_until_end(running: &Running, task: impl Future<Output = ()> + Send + 'static) -> Result<()> {
    let ended = running.end_of();
    engine()?.spawn(async move {
        tokio::select! {
            () = task => {}
            () = ended => {}
        }
    });
    Ok(())
}

/// Listens in a sandbox. Only programs in the sandbox can connect.
async fn listen_in_sandbox(running: &Running, port: u16) -> Result<TcpListener> {
    let at = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port);
    let socket = std::net::TcpListener::from(request_socket(running, &Request::Listen(at)).await?);
    socket.set_nonblocking(true).and_then(|()| TcpListener::from_std(socket)).map_err(|_| unexpected_answer())
}

/// Connects to a port of a sandbox.
async fn connect_to_sandbox(running: &Running, port: u16) -> Result<TcpStream> {
    for address in [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)] {
        let connecting = connect_to(running, SocketAddr::new(address, port));
        match tokio::time::timeout(TIMEOUT, connecting).await {
            Ok(Ok(Some(stream))) => return Ok(stream),
            Ok(Err(error)) => return Err(error),
            Ok(Ok(None)) => {}
            Err(_) => {
                let text = format!("the server on port {port} of the sandbox does not accept connections");
                return Err(Error::new(Code::Timeout, text));
            }
        }
    }
    let text = format!(
        "nothing listens on port {port} of the sandbox: start a server on 127.0.0.1 or on all addresses"
    );
    Err(Error::new(Code::NotFound, text))
}

/// Connects to an address. Returns `None` if nothing listens there.
async fn connect_to(running: &Running, to: SocketAddr) -> Result<Option<TcpStream>> {
    let socket = match request_socket(running, &Request::Connect(to)).await {
        Ok(socket) => std::net::TcpStream::from(socket),
        Err(_) if !running.has_ended() => return Ok(None),
        Err(error) => return Err(error),
    };
    let arriving = socket.set_nonblocking(true).and_then(|()| TcpStream::from_std(socket));
    let arriving = arriving.map_err(|_| unexpected_answer())?;
    arriving.writable().await.map_err(|_| unexpected_answer())?;
    let _ = arriving.set_nodelay(true);
    Ok(matches!(arriving.take_error(), Ok(None)).then_some(arriving))
}

/// Requests a TCP socket from the guest. Its type is verified, because reading from something else might never end.
async fn request_socket(running: &Running, request: &Request) -> Result<OwnedFd> {
    let socket = running.call(request).await?.descriptors.into_iter().next().ok_or_else(unexpected_answer)?;
    let family = sockopt::socket_domain(&socket);
    let tcp = matches!(family, Ok(AddressFamily::INET | AddressFamily::INET6))
        && sockopt::socket_type(&socket) == Ok(SocketType::STREAM);
    if tcp { Ok(socket) } else { Err(unexpected_answer()) }
}
