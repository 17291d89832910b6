//! Accepts connections: one thread holds those that have not authenticated, and passes on those that send the token.
//!
//! Any program in the container can connect. So the number of unauthenticated connections, their time and their memory
//! are limited. If there are too many, those from inside the container are dropped first.

use std::io::{self, Read};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, listen, socket_with, sockopt};

use super::connection::serve_connection;
use super::frame::{Decoder, Frame, Kind, PORT};
use super::guest::Guest;
use super::request::Hello;
use super::token::Token;
use super::wire::{Stdio, Wire};

/// The maximum number of unauthenticated connections.
const MAX_PENDING: usize = 16;
/// The time that a connection has to authenticate.
const TIMEOUT: Duration = Duration::from_secs(10);
/// The longest hello, in bytes.
const MAX_HELLO: usize = 1024;
/// The backlog of the listening socket.
const BACKLOG: i32 = 128;
/// How long to wait before accepting again when file descriptors or memory run out.
const PAUSE: Duration = Duration::from_millis(50);

/// A connection that has not authenticated.
struct Unauthenticated {
    socket: TcpStream,
    decoder: Decoder,
    until: Instant,
    inside: bool,
}

/// The state of a handshake.
enum Handshake {
    /// The hello is incomplete.
    Incomplete,
    /// The token was right. `u32` is the protocol version of the peer.
    Accepted(u32),
    /// The peer sent anything else, or disconnected.
    Rejected,
}

/// Opens the listening socket: at `at`, or else at the guest's own port on all addresses. With `any` it falls back to a
/// free port if the guest's own is in use.
pub(super) fn open_listener(at: Option<SocketAddr>, any: bool) -> io::Result<TcpListener> {
    match at {
        Some(address) => listen_at(address),
        None => match listen_everywhere(PORT) {
            Err(error) if any && error.kind() == io::ErrorKind::AddrInUse => listen_everywhere(0),
            opened => opened,
        },
    }
}

/// Listens on a port of all addresses.
fn listen_everywhere(port: u16) -> io::Result<TcpListener> {
    let six: SocketAddr = (std::net::Ipv6Addr::UNSPECIFIED, port).into();
    // Without IPv6 in the network, only IPv4 remains.
    match listen_at(six) {
        Err(error) if error.kind() != io::ErrorKind::AddrInUse => {
            listen_at((std::net::Ipv4Addr::UNSPECIFIED, port).into())
        }
        opened => opened,
    }
}

fn listen_at(at: SocketAddr) -> io::Result<TcpListener> {
    let family = if at.is_ipv6() { AddressFamily::INET6 } else { AddressFamily::INET };
    let socket = socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None)?;
    if at.is_ipv6() {
        sockopt::set_ipv6_v6only(&socket, false)?;
    }
    sockopt::set_socket_reuseaddr(&socket, true)?;
    bind(&socket, &at)?;
    listen(&socket, BACKLOG)?;
    Ok(socket.into())
}

/// Accepts connections until the guest exits.
pub(super) fn accept_connections(listener: &TcpListener, token: &Token, guest: &Arc<Guest>) {
    let mut pending: Vec<Unauthenticated> = Vec::new();
    loop {
        let (new, ready) = wait_for_connections(listener, &pending);
        let now = Instant::now();
        let mut ready = ready.into_iter();
        let all = std::mem::take(&mut pending);
        for mut connection in all {
            let handshake = if ready.next().unwrap_or_default() {
                read_hello(&mut connection, token)
            } else {
                Handshake::Incomplete
            };
            match handshake {
                Handshake::Incomplete if now < connection.until => pending.push(connection),
                Handshake::Incomplete | Handshake::Rejected => {}
                Handshake::Accepted(protocol) => {
                    serve_connection(guest, Wire::Tcp(connection.socket), connection.decoder, protocol);
                }
            }
        }
        if new {
            accept_pending(listener, &mut pending);
        }
    }
}

/// Serves the host that holds the guest's standard input and output. The guest exits when they end.
pub(super) fn serve_stdio(stdio: Stdio, guest: &Arc<Guest>) {
    let wire = Wire::Stdio(stdio);
    let mut decoder = Decoder::new(MAX_HELLO);
    loop {
        match next_hello(&mut decoder, |_| true) {
            Handshake::Incomplete => {}
            Handshake::Rejected => return wire.close(),
            Handshake::Accepted(protocol) => return serve_connection(guest, wire, decoder, protocol),
        }
        match (&wire).read(decoder.space()) {
            Ok(0) => return wire.close(),
            Ok(read) => decoder.filled(read),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return wire.close(),
        }
    }
}

/// Waits for an event. Returns whether a connection is pending, and which of the unauthenticated ones are readable.
fn wait_for_connections(listener: &TcpListener, pending: &[Unauthenticated]) -> (bool, Vec<bool>) {
    let first = pending.iter().map(|connection| connection.until).min();
    let left = first.map(|until| until.saturating_duration_since(Instant::now()));
    // One millisecond more, so that the deadline has passed on wakeup.
    let timeout = left.and_then(|left| Timespec::try_from(left + Duration::from_millis(1)).ok());
    let all =
        [listener.as_fd()].into_iter().chain(pending.iter().map(|connection| connection.socket.as_fd()));
    let mut all: Vec<_> = all.map(|one| PollFd::from_borrowed_fd(one, PollFlags::IN)).collect();
    if poll(&mut all, timeout.as_ref()).is_err() {
        return (false, Vec::new());
    }
    let mut ready = all.iter().map(|one| !one.revents().is_empty());
    (ready.next().unwrap_or_default(), ready.collect())
}

/// Accepts pending connections.
fn accept_pending(listener: &TcpListener, pending: &mut Vec<Unauthenticated>) {
    // A bounded number at a time, so that existing connections get their turn.
    for _ in 0..MAX_PENDING {
        let (socket, peer) = match listener.accept() {
            Ok(accepted) => accepted,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
            Err(error)
                if matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE | libc::ENOMEM)) =>
            {
                std::thread::sleep(PAUSE);
                return;
            }
            // The peer has already disconnected.
            Err(_) => continue,
        };
        if socket.set_nonblocking(true).is_err() {
            continue;
        }
        if pending.len() >= MAX_PENDING {
            // The oldest are at the front.
            let leaves = pending.iter().position(|connection| connection.inside).unwrap_or(0);
            pending.remove(leaves);
        }
        let peer = peer.ip().to_canonical();
        let own = socket.local_addr().is_ok_and(|own| own.ip().to_canonical() == peer);
        let (inside, until) = (own || peer.is_loopback(), Instant::now() + TIMEOUT);
        pending.push(Unauthenticated { socket, decoder: Decoder::new(MAX_HELLO), until, inside });
    }
}

fn read_hello(connection: &mut Unauthenticated, token: &Token) -> Handshake {
    let read = match connection.socket.read(connection.decoder.space()) {
        Ok(0) => return Handshake::Rejected,
        Ok(read) => read,
        Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {
            return Handshake::Incomplete;
        }
        Err(_) => return Handshake::Rejected,
    };
    connection.decoder.filled(read);
    next_hello(&mut connection.decoder, |given| token.is(given))
}

/// Decodes the hello of a client, whose token has to pass a check.
fn next_hello(decoder: &mut Decoder, is_right: impl Fn(&[u8]) -> bool) -> Handshake {
    match decoder.next() {
        Ok(Some(Frame { call: 0, kind: Kind::Hello, payload })) => {
            match serde_json::from_slice::<Hello>(payload) {
                Ok(hello) if is_right(hello.token.as_bytes()) => Handshake::Accepted(hello.protocol),
                _ => Handshake::Rejected,
            }
        }
        Ok(None) => Handshake::Incomplete,
        Ok(Some(_)) | Err(_) => Handshake::Rejected,
    }
}
