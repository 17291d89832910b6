//! The calls of a client of the guest: which frames belong to which call, and the rules that the guest's frames must follow.
//!
//! This is the part that all clients share. One that blocks is `client`; another one may wait for the events of its calls in
//! any other way.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde_json::Value;

use crate::frame::{CREDIT, Frame, Kind, PIECE, Violation};

/// The maximum length of an answer, in bytes.
const MAX_ANSWER: usize = 1 << 20;

/// An event of a call.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// Bytes of stream 1 or 2. The guest sends more as it is granted credit.
    Data(u8, Vec<u8>),
    /// The end of stream 1 or 2.
    End(u8),
    /// More bytes can be written.
    Credit(u32),
    /// The answer, which is the last event.
    Answer(Value),
}

/// Receives the events of a call. It is dropped after the answer, or with the connection.
pub type Sink = Box<dyn Fn(Event) + Send>;

/// The open calls, or why the connection has ended.
#[derive(Debug)]
pub struct Calls(Mutex<Result<HashMap<u32, Open>, Ended>>);

/// Why a connection has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// It was closed.
    Closed,
    /// The guest violated this rule of the protocol.
    Violation(&'static str),
}

/// Why a call cannot go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Over {
    /// It was already answered.
    Answered,
    /// The connection has ended.
    Ended(Ended),
}

/// A call that is not answered.
struct Open {
    events: Sink,
    /// How many bytes may be sent on stream 0.
    credit: u32,
    /// How many bytes the guest may send on streams 1 and 2; `None` once they have ended.
    room: [Option<u32>; 2],
    /// The pieces of the answer so far.
    answer: Vec<u8>,
}

impl Default for Calls {
    fn default() -> Self {
        Calls(Mutex::new(Ok(HashMap::new())))
    }
}

impl fmt::Debug for Open {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.debug_struct("Open")
            .field("credit", &self.credit)
            .field("room", &self.room)
            .finish_non_exhaustive()
    }
}

impl Calls {
    fn lock(&self) -> MutexGuard<'_, Result<HashMap<u32, Open>, Ended>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a call, whose events go to `events`.
    ///
    /// # Errors
    /// If the connection has ended.
    pub fn add(&self, number: u32, events: Sink) -> Result<(), Ended> {
        let open = Open { events, credit: CREDIT, room: [Some(CREDIT); 2], answer: Vec::new() };
        self.lock().as_mut().map_err(|ended| *ended)?.insert(number, open);
        Ok(())
    }

    /// Removes a call. Its later frames are ignored.
    pub fn remove(&self, number: u32) {
        if let Ok(calls) = &mut *self.lock() {
            calls.remove(&number);
        }
    }

    /// Returns whether the connection has ended.
    pub fn is_closed(&self) -> bool {
        self.lock().is_err()
    }

    /// Returns how many bytes a call may send on stream 0.
    ///
    /// # Errors
    /// If it was answered, or the connection has ended.
    pub fn credit(&self, number: u32) -> Result<u32, Over> {
        let calls = self.lock();
        let calls = calls.as_ref().map_err(|ended| Over::Ended(*ended))?;
        calls.get(&number).map(|open| open.credit).ok_or(Over::Answered)
    }

    /// Ends all calls, for this reason.
    pub fn end(&self, ended: Ended) {
        // The calls end with their sinks.
        let calls = std::mem::replace(&mut *self.lock(), Err(ended));
        drop(calls);
    }

    /// Uses up credit of a call.
    pub fn use_credit(&self, number: u32, bytes: u32) {
        if let Ok(calls) = &mut *self.lock()
            && let Some(open) = calls.get_mut(&number)
        {
            open.credit = open.credit.saturating_sub(bytes);
        }
    }

    /// Lets the guest send more on a stream.
    pub fn grant(&self, number: u32, stream: u8, bytes: u32) {
        if let Ok(calls) = &mut *self.lock()
            && let Some(open) = calls.get_mut(&number)
            && let Some(Some(room)) = index(stream).and_then(|index| open.room.get_mut(index))
        {
            *room = room.saturating_add(bytes);
        }
    }

    /// Passes a frame of the guest on to its call.
    ///
    /// # Errors
    /// If the frame violates the protocol, which ends the connection.
    pub fn pass_on(&self, frame: &Frame<'_>) -> Result<(), Violation> {
        let Ok(calls) = &mut *self.lock() else { return Ok(()) };
        // The guest may not know yet that a call was canceled.
        let Some(open) = calls.get_mut(&frame.call) else { return Ok(()) };
        let Some(event) = open.event(frame)? else { return Ok(()) };
        let is_answer = matches!(event, Event::Answer(_));
        (open.events)(event);
        if is_answer {
            calls.remove(&frame.call);
        }
        Ok(())
    }
}

impl Open {
    /// Returns the event that a frame completes.
    fn event(&mut self, frame: &Frame<'_>) -> Result<Option<Event>, Violation> {
        match frame.kind {
            Kind::Data => {
                let (stream, bytes) = frame.stream()?;
                let Some(room) = self.room_of(stream)? else { return Err(Violation("data after its end")) };
                let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
                *room = room.checked_sub(length).ok_or(Violation("more data than credit was granted for"))?;
                Ok((length > 0).then(|| Event::Data(stream, bytes.to_vec())))
            }
            Kind::End => {
                let (stream, []) = frame.stream()? else { return Err(Violation("an end frame is too long")) };
                match self.room_of(stream)?.take() {
                    Some(_) => Ok(Some(Event::End(stream))),
                    None => Err(Violation("a stream ended twice")),
                }
            }
            Kind::Credit => {
                let (0, bytes) = frame.stream()? else { return Err(Violation("credit for another stream")) };
                let bytes =
                    bytes.try_into().map_err(|_| Violation("credit is not a number of four bytes"))?;
                let bytes = u32::from_le_bytes(bytes);
                let credit = self.credit.checked_add(bytes).filter(|credit| *credit <= CREDIT && bytes > 0);
                self.credit = credit.ok_or(Violation("credit for data that was not sent"))?;
                Ok(Some(Event::Credit(bytes)))
            }
            Kind::Answer => {
                if self.answer.len() + frame.payload.len() > MAX_ANSWER {
                    return Err(Violation("an answer is too long"));
                }
                self.answer.extend_from_slice(frame.payload);
                if frame.payload.len() == PIECE {
                    return Ok(None);
                }
                let answer = serde_json::from_slice(&self.answer);
                answer
                    .map(|answer| Some(Event::Answer(answer)))
                    .map_err(|_| Violation("an answer is not JSON"))
            }
            Kind::Hello | Kind::Welcome | Kind::Request | Kind::Cancel => {
                Err(Violation("a frame of this kind is not for clients"))
            }
        }
    }

    fn room_of(&mut self, stream: u8) -> Result<&mut Option<u32>, Violation> {
        let room = index(stream).and_then(|index| self.room.get_mut(index));
        room.ok_or(Violation("a stream does not exist"))
    }
}

/// Returns the index of a stream from the guest, which are 1 and 2.
fn index(stream: u8) -> Option<usize> {
    stream.checked_sub(1).map(usize::from)
}
