//! The sending half of a connection, shared by the threads that work on its calls.

use std::io::Write;
use std::sync::{Mutex, PoisonError};

use super::streams::Stopped;
use super::wire::Wire;

/// The sending half of a connection.
#[derive(Debug)]
pub(super) struct Link {
    wire: Wire,
    /// Held while a frame is sent, so that frames do not mix.
    turn: Mutex<()>,
}

impl Link {
    pub(super) fn new(wire: Wire) -> Self {
        Link { wire, turn: Mutex::new(()) }
    }

    /// Sends whole frames. A peer that does not read blocks all calls of this connection, over TCP until that times out.
    pub(super) fn send(&self, frames: &[u8]) -> Result<(), Stopped> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        (&self.wire).write_all(frames).map_err(|_| {
            // Part of a frame may have been sent.
            self.close();
            Stopped
        })
    }

    /// Closes the connection. Its reader notices and stops the running calls.
    pub(super) fn close(&self) {
        self.wire.close();
    }

    pub(super) fn wire(&self) -> &Wire {
        &self.wire
    }
}
