//! Archives that one thread writes while another one reads them.

use std::io::{self, Read};
use std::sync::mpsc::Receiver;

/// Reads the pieces of another thread, up to its error or its end.
pub(super) struct Pieces {
    receiver: Receiver<io::Result<Vec<u8>>>,
    piece: io::Cursor<Vec<u8>>,
}

impl Pieces {
    /// Reads what a thread sends.
    pub(super) fn new(receiver: Receiver<io::Result<Vec<u8>>>) -> Self {
        Pieces { receiver, piece: io::Cursor::default() }
    }
}

impl Read for Pieces {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let read = self.piece.read(buffer)?;
            if read > 0 || buffer.is_empty() {
                return Ok(read);
            }
            match self.receiver.recv() {
                Ok(piece) => self.piece = io::Cursor::new(piece?),
                Err(_) => return Ok(0),
            }
        }
    }
}
