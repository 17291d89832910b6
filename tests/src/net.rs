//! Aborts connections.

use std::net::TcpStream;
use std::time::Duration;

use rustix::net::sockopt::set_socket_linger;

/// Resets a connection, as the end of a crashed program may do. Unlike with a regular close, the peer notices it even
/// if it has nothing to send.
///
/// # Panics
/// Panics if the system refuses.
pub fn hang_up(stream: TcpStream) {
    set_socket_linger(&stream, Some(Duration::ZERO)).expect("a socket");
    drop(stream);
}
