//! A call of a client.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

use serde::de::DeserializeOwned;

use super::{Client, Error, Event};
use crate::frame::{Kind, PIECE};
use crate::request::Answer;

/// A call. Dropping it before its answer cancels it.
#[derive(Debug)]
pub struct Call<'a> {
    client: &'a Client,
    number: u32,
    events: Receiver<Event>,
    /// Events that arrived while a write waited for credit.
    early: RefCell<VecDeque<Event>>,
    is_over: Cell<bool>,
}

impl<'a> Call<'a> {
    pub(super) fn new(client: &'a Client, number: u32, events: Receiver<Event>) -> Self {
        Call { client, number, events, early: RefCell::default(), is_over: Cell::new(false) }
    }

    /// Returns the number of the call in frames.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Writes bytes to stream 0. Waits while the guest does not take them.
    ///
    /// # Errors
    /// [`Error::Answered`] if the guest has answered without waiting for them.
    pub fn write(&self, bytes: &[u8]) -> Result<(), Error> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let credit = self.client.calls.credit(self.number)? as usize;
            let (piece, after) = rest.split_at(rest.len().min(PIECE).min(credit));
            if piece.is_empty() {
                let event = self.events.recv().map_err(|_| self.why_over())?;
                self.early.borrow_mut().push_back(event);
                continue;
            }
            self.write_piece(piece)?;
            rest = after;
        }
        Ok(())
    }

    /// Writes everything that a reader returns to stream 0, a piece at a time.
    ///
    /// # Errors
    /// As [`write`](Self::write), and [`Error::Body`] if the reader fails.
    pub fn write_from(&self, reader: &mut dyn Read) -> Result<(), Error> {
        let mut buffer = vec![0; PIECE];
        loop {
            match reader.read(&mut buffer) {
                Ok(0) => return Ok(()),
                Ok(read) => self.write(&buffer[..read])?,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Error::Body(error)),
            }
        }
    }

    /// Writes at most [`PIECE`] bytes to stream 0 without waiting for credit. Without credit, the guest ends
    /// the connection.
    ///
    /// # Errors
    /// If the connection has ended.
    pub fn write_piece(&self, bytes: &[u8]) -> Result<(), Error> {
        self.client.calls.use_credit(self.number, u32::try_from(bytes.len()).unwrap_or(u32::MAX));
        self.client.send(self.number, Kind::Data, &[&[0], bytes].concat())
    }

    /// Ends stream 0. Only then the guest puts a file in place.
    ///
    /// # Errors
    /// If the connection has ended.
    pub fn end(&self) -> Result<(), Error> {
        self.client.send(self.number, Kind::End, &[0])
    }

    /// Lets the guest send more bytes on stream 1 or 2. A call begins with
    /// [`CREDIT`](crate::container::frame::CREDIT) bytes for each.
    ///
    /// # Errors
    /// If the connection has ended.
    pub fn grant(&self, stream: u8, bytes: u32) -> Result<(), Error> {
        self.client.calls.grant(self.number, stream, bytes);
        self.client.send(self.number, Kind::Credit, &[&[stream][..], &bytes.to_le_bytes()].concat())
    }

    /// Cancels the call. There are no further events.
    ///
    /// # Errors
    /// If the connection has ended.
    pub fn cancel(&self) -> Result<(), Error> {
        self.is_over.set(true);
        self.client.calls.remove(self.number);
        self.client.send(self.number, Kind::Cancel, &[])
    }

    /// Waits for the next event.
    ///
    /// # Errors
    /// [`Error::Timeout`] if no event arrives in time, [`Error::Answered`] after the last event, or why the connection has
    /// ended.
    pub fn next(&self, timeout: Option<Duration>) -> Result<Event, Error> {
        let early = self.early.borrow_mut().pop_front();
        let event = match (early, timeout) {
            (Some(event), _) => event,
            (None, None) => self.events.recv().map_err(|_| self.why_over())?,
            (None, Some(timeout)) => self.events.recv_timeout(timeout).map_err(|error| match error {
                RecvTimeoutError::Timeout => Error::Timeout,
                RecvTimeoutError::Disconnected => self.why_over(),
            })?,
        };
        if matches!(event, Event::Answer(_)) {
            self.is_over.set(true);
        }
        Ok(event)
    }

    /// Receives the rest of the call: writes streams 1 and 2 to `out` and `err` as they arrive, and returns the result.
    ///
    /// # Errors
    /// [`Error::Failed`] if the operation failed, [`Error::Body`] if output cannot be written, or why the connection has
    /// ended.
    pub fn receive<T: DeserializeOwned>(self, out: &mut dyn Write, err: &mut dyn Write) -> Result<T, Error> {
        loop {
            match self.next(None)? {
                Event::Data(stream, bytes) => {
                    let written = if stream == 1 { out.write_all(&bytes) } else { err.write_all(&bytes) };
                    written.map_err(Error::Body)?;
                    self.grant(stream, u32::try_from(bytes.len()).unwrap_or(u32::MAX))?;
                }
                Event::End(_) | Event::Credit(_) => {}
                Event::Answer(answer) => {
                    return match serde_json::from_value(answer).map_err(Error::Answer)? {
                        Answer::Ok(result) => Ok(result),
                        Answer::Failed(fault) => Err(Error::Failed(fault)),
                    };
                }
            }
        }
    }

    /// Returns why there are no more events.
    fn why_over(&self) -> Error {
        self.client.calls.credit(self.number).err().map_or(Error::Closed, Error::from)
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        if !self.is_over.get() {
            // Without a connection, the guest has canceled it already.
            let _ = self.cancel();
        }
    }
}
