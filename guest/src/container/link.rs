//! The way out of a connection, shared by all who work on its calls.

use std::io::Write;
use std::net::{Shutdown, TcpStream};
use std::sync::{Mutex, PoisonError};

use super::streams::Stopped;

/// The sending half of a connection.
#[derive(Debug)]
pub(super) struct Link {
    socket: TcpStream,
    /// One frame after the other.
    turn: Mutex<()>,
}

impl Link {
    pub(super) fn new(socket: TcpStream) -> Self {
        Link { socket, turn: Mutex::new(()) }
    }

    /// Sends whole frames. A peer that takes nothing holds up all calls of this connection, until the kernel gives it up.
    pub(super) fn send(&self, frames: &[u8]) -> Result<(), Stopped> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        (&self.socket).write_all(frames).map_err(|_| {
            // Half a frame may have gone.
            self.close();
            Stopped
        })
    }

    /// Ends the connection: its reader sees it, and stops what is at work.
    pub(super) fn close(&self) {
        let _ = self.socket.shutdown(Shutdown::Both);
    }

    pub(super) fn socket(&self) -> &TcpStream {
        &self.socket
    }
}
