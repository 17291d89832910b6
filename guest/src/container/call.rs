//! A call, from the view of the thread that works on it.

use std::io::{self, Read, Write};
use std::sync::Arc;

use super::frame::{DATA_HEAD, Kind, PIECE, data_head, encode, encode_text};
use super::link::Link;
use super::request::{Answer, Done};
use super::streams::{Stopped, Streams};
use crate::message::Fault;

/// Why work on a call ends early.
#[derive(Debug)]
pub(super) enum End {
    /// The call was canceled, or its connection is closed.
    Stopped,
    /// The operation failed.
    Fault(Fault),
}

impl From<Fault> for End {
    fn from(fault: Fault) -> Self {
        End::Fault(fault)
    }
}

impl From<Stopped> for End {
    fn from(_: Stopped) -> Self {
        End::Stopped
    }
}

/// A call.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) number: u32,
    pub(super) streams: Arc<Streams>,
    pub(super) link: Arc<Link>,
}

impl Call {
    /// Sends bytes on a stream, waiting for credit.
    pub(super) fn send(&self, stream: u8, bytes: &[u8]) -> Result<(), Stopped> {
        let mut rest = bytes;
        let mut read = |to: &mut [u8]| {
            to.copy_from_slice(&rest[..to.len()]);
            rest = &rest[to.len()..];
            Ok::<_, End>(to.len())
        };
        let mut left = bytes.len();
        let mut buffer = Vec::new();
        while left > 0 {
            match self.piece(stream, left, &mut buffer, &mut read) {
                Ok(sent) => left -= sent,
                Err(_) => return Err(Stopped),
            }
        }
        Ok(())
    }

    /// Sends one piece of at most `most` bytes on a stream. `read` fills in the bytes. Returns their number. The buffer
    /// can be reused for the next piece.
    pub(super) fn piece(
        &self,
        stream: u8,
        most: usize,
        buffer: &mut Vec<u8>,
        read: &mut impl FnMut(&mut [u8]) -> Result<usize, End>,
    ) -> Result<usize, End> {
        let most = most.min(PIECE).min(self.streams.may_send(stream)?);
        buffer.resize(DATA_HEAD + most, 0);
        let length = read(&mut buffer[DATA_HEAD..])?.min(most);
        if length > 0 {
            buffer[..DATA_HEAD].copy_from_slice(&data_head(self.number, stream, length));
            self.streams.sent(stream, length);
            self.link.send(&buffer[..DATA_HEAD + length])?;
        }
        Ok(length)
    }

    /// Ends a stream.
    pub(super) fn end(&self, stream: u8) -> Result<(), Stopped> {
        self.link.send(&encode(self.number, Kind::End, &[stream]))
    }

    /// Reads from stream 0. Returns 0 at its end.
    pub(super) fn take(&self, to: &mut [u8]) -> Result<usize, Stopped> {
        let (length, give) = self.streams.take(to)?;
        if let Some(credit) = give {
            let payload = [&[0][..], &credit.to_le_bytes()].concat();
            self.link.send(&encode(self.number, Kind::Credit, &payload))?;
        }
        Ok(length)
    }

    /// Sends the answer, the last frame of the call.
    pub(super) fn answer(&self, done: Result<Done, Fault>) -> Result<(), Stopped> {
        let answer = done.map_or_else(Answer::Failed, Answer::Ok);
        // An answer consists of strings and numbers, so serialization cannot fail.
        let text = serde_json::to_vec(&answer).map_err(|_| Stopped)?;
        self.link.send(&encode_text(self.number, Kind::Answer, &text))
    }
}

/// Writes to a stream, in whole pieces.
pub(super) struct Writer<'a> {
    call: &'a Call,
    stream: u8,
    buffer: Vec<u8>,
}

impl<'a> Writer<'a> {
    pub(super) fn new(call: &'a Call, stream: u8) -> Self {
        Writer { call, stream, buffer: Vec::new() }
    }
}

impl Write for Writer<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= PIECE {
            self.flush()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        let sent = self.call.send(self.stream, &self.buffer);
        self.buffer.clear();
        sent.map_err(|Stopped| io::ErrorKind::BrokenPipe.into())
    }
}

/// Reads from stream 0.
pub(super) struct Reader<'a>(pub(super) &'a Call);

impl Read for Reader<'_> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        self.0.take(to).map_err(|Stopped| io::ErrorKind::BrokenPipe.into())
    }
}
