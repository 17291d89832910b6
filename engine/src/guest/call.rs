//! A call of the guest.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use koze_core::error::{Code, Error, Result};
use koze_guest::calls::{Event, Over};
use koze_guest::frame::{Kind, PIECE, data_head, encode};
use koze_guest::request::Answer;
use serde::de::DeserializeOwned;
use tokio::sync::mpsc;

use super::Connection;

/// The most that a call collects of its output, in bytes.
const MAX_COLLECTED: usize = 256 << 20;

/// A call. Dropping it before its answer cancels it.
#[derive(Debug)]
pub(crate) struct Call {
    connection: Arc<Connection>,
    number: u32,
    events: mpsc::UnboundedReceiver<Event>,
    /// Events that arrived while a write waited for credit.
    early: VecDeque<Event>,
    is_over: bool,
}

/// The result of a call, with its output.
#[derive(Debug)]
pub(crate) struct Answered<T> {
    /// What the guest answered.
    pub(crate) result: T,
    /// The bytes of stream 1.
    pub(crate) out: Vec<u8>,
    /// The bytes of stream 2.
    pub(crate) err: Vec<u8>,
}

impl Call {
    pub(super) fn new(
        connection: Arc<Connection>,
        number: u32,
        events: mpsc::UnboundedReceiver<Event>,
    ) -> Self {
        Call { connection, number, events, early: VecDeque::new(), is_over: false }
    }

    /// Writes bytes to stream 0. Waits while the guest does not take them. Returns whether it wants more: it does not if it has
    /// answered.
    ///
    /// # Errors
    /// If the connection has ended.
    pub(crate) async fn write(&mut self, bytes: &[u8]) -> Result<bool> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let credit = match self.connection.shared.calls.credit(self.number) {
                Ok(credit) => credit,
                Err(Over::Answered) => return Ok(false),
                Err(Over::Ended(ended)) => return Err(self.connection.ended_error(ended)),
            };
            if credit == 0 {
                let event = self.events.recv().await;
                let event = event.ok_or_else(|| self.over_error())?;
                self.early.push_back(event);
                continue;
            }
            rest = &rest[self.write_piece(rest)..];
        }
        Ok(true)
    }

    /// Writes as many bytes to stream 0 as the guest takes now, at most one piece. Returns their number, which is 0 also after the
    /// end of the call: [`poll_next`](Self::poll_next) then says why.
    pub(crate) fn write_piece(&self, bytes: &[u8]) -> usize {
        let credit = self.connection.shared.calls.credit(self.number).unwrap_or_default() as usize;
        let piece = &bytes[..bytes.len().min(PIECE).min(credit)];
        if !piece.is_empty() {
            let length = u32::try_from(piece.len()).unwrap_or(u32::MAX);
            self.connection.shared.calls.use_credit(self.number, length);
            self.connection.send([&data_head(self.number, 0, piece.len())[..], piece].concat());
        }
        piece.len()
    }

    /// Ends stream 0. Only then the guest puts a file in place.
    pub(crate) fn end(&self) {
        self.connection.send(encode(self.number, Kind::End, &[0]));
    }

    /// Lets the guest send more bytes on stream 1 or 2.
    pub(crate) fn grant(&self, stream: u8, bytes: usize) {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        self.connection.shared.calls.grant(self.number, stream, bytes);
        let payload = [&[stream][..], &bytes.to_le_bytes()].concat();
        self.connection.send(encode(self.number, Kind::Credit, &payload));
    }

    /// Waits for the next event.
    ///
    /// # Errors
    /// If the connection has ended, or the last event was returned.
    pub(crate) async fn next(&mut self) -> Result<Event> {
        poll_fn(|cx| self.poll_next(cx)).await
    }

    /// The same for a future that is not `async`.
    pub(crate) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Result<Event>> {
        let event = match self.early.pop_front() {
            Some(event) => Some(event),
            None => ready!(self.events.poll_recv(cx)),
        };
        let event = event.ok_or_else(|| self.over_error())?;
        self.is_over |= matches!(event, Event::Answer(_));
        Poll::Ready(Ok(event))
    }

    /// Collects the output and the answer.
    ///
    /// # Errors
    /// The error of the operation, [`Code::TooLarge`] for too much output, or why the connection has ended.
    pub(crate) async fn finish<T: DeserializeOwned>(mut self) -> Result<Answered<T>> {
        let (mut out, mut err) = (Vec::new(), Vec::new());
        loop {
            match self.next().await? {
                Event::Data(stream, bytes) => {
                    if out.len() + err.len() + bytes.len() > MAX_COLLECTED {
                        let most = MAX_COLLECTED >> 20;
                        let message = format!("the result has more than {most} MiB: read it in parts");
                        return Err(Error::new(Code::TooLarge, message));
                    }
                    let to = if stream == 1 { &mut out } else { &mut err };
                    to.extend_from_slice(&bytes);
                    self.grant(stream, bytes.len());
                }
                Event::End(_) | Event::Credit(_) => {}
                Event::Answer(answer) => return Ok(Answered { result: parse_answer(answer)?, out, err }),
            }
        }
    }

    fn over_error(&self) -> Error {
        match self.connection.shared.calls.credit(self.number) {
            Err(Over::Ended(ended)) => self.connection.ended_error(ended),
            _ => Error::new(Code::Internal, "the guest has already answered the call"),
        }
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        if !self.is_over {
            self.connection.shared.calls.remove(self.number);
            self.connection.send(encode(self.number, Kind::Cancel, &[]));
        }
    }
}

/// Parses the answer of a call.
///
/// # Errors
/// The error of the operation, and [`Code::Internal`] for an answer of another type.
pub(crate) fn parse_answer<T: DeserializeOwned>(answer: serde_json::Value) -> Result<T> {
    match serde_json::from_value(answer) {
        Ok(Answer::Ok(result)) => Ok(result),
        Ok(Answer::Failed(fault)) => Err(Error::new(fault.why, fault.text)),
        Err(error) => {
            let message = "the guest of the sandbox answered with something unexpected";
            Err(Error::new(Code::Internal, message).with_source(error))
        }
    }
}
