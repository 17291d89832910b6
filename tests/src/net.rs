//! Connections that end as the tests want it.

use std::net::TcpStream;
use std::time::Duration;

use rustix::net::sockopt::set_socket_linger;

/// Ends a connection at once, as that of a program that has crashed may end: the other side hears of it though it has
/// nothing to send. One that is merely closed might still be listened at.
///
/// # Panics
/// Where the system refuses.
pub fn hang_up(stream: TcpStream) {
    set_socket_linger(&stream, Some(Duration::ZERO)).expect("a socket");
    drop(stream);
}
