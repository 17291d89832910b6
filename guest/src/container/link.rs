//! The sending half of a connection, shared by the threads that work on its calls.

use std::io::Write;
use std::net::{Shutdown, TcpStream};
use std::sync::{Mutex, PoisonError};

use super::streams::Stopped;

/// The sending half of a connection.
#[derive(Debug)]
pub(super) struct Link {
    socket: TcpStream,
    /// Held while a frame is sent, so that frames do not mix.
    turn: Mutex<()>,
}

impl Link {
    pub(super) fn new(socket: TcpStream) -> Self {
        Link { socket, turn: Mutex::new(()) }
    }

    /// Sends whole frames. A peer that does not read blocks all calls of this connection until TCP times out.
    pub(super) fn send(&self, frames: &[u8]) -> Result<(), Stopped> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        (&self.socket).write_all(frames).map_err(|_| {
            // Part of a frame may have been sent.
            self.close();
            Stopped
        })
    }

    /// Closes the connection. Its reader notices and stops the running calls.
    pub(super) fn close(&self) {
        let _ = self.socket.shutdown(Shutdown::Both);
    }

    pub(super) fn socket(&self) -> &TcpStream {
        &self.socket
    }
}
