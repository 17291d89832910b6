//! Receives frames, and passes them on to the calls that they belong to.

use std::collections::HashMap;
use std::io::{self, Read};
use std::net::{Shutdown, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::{Error, Event};
use crate::container::frame::{CREDIT, Decoder, Frame, Kind, PIECE, Violation};

/// The maximum length of an answer, in bytes.
const MAX_ANSWER: usize = 1 << 20;

/// The open calls, or why the connection has ended.
#[derive(Debug)]
pub(super) struct Calls(Mutex<Result<HashMap<u32, Open>, Ended>>);

/// Why a connection has ended.
#[derive(Debug, Clone, Copy)]
enum Ended {
    Closed,
    Violation(&'static str),
}

/// A call that is not answered.
#[derive(Debug)]
struct Open {
    events: Sender<Event>,
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

impl From<Ended> for Error {
    fn from(ended: Ended) -> Self {
        match ended {
            Ended::Closed => Error::Closed,
            Ended::Violation(rule) => Error::Violation(rule),
        }
    }
}

impl Calls {
    fn lock(&self) -> MutexGuard<'_, Result<HashMap<u32, Open>, Ended>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a call. Returns its events.
    pub(super) fn add(&self, number: u32) -> Result<Receiver<Event>, Error> {
        let (sender, events) = channel();
        let open = Open { events: sender, credit: CREDIT, room: [Some(CREDIT); 2], answer: Vec::new() };
        self.lock().as_mut().map_err(|ended| *ended)?.insert(number, open);
        Ok(events)
    }

    /// Removes a call. Its later frames are ignored.
    pub(super) fn remove(&self, number: u32) {
        if let Ok(calls) = &mut *self.lock() {
            calls.remove(&number);
        }
    }

    /// Returns whether the connection has ended.
    pub(super) fn is_closed(&self) -> bool {
        self.lock().is_err()
    }

    /// Returns how many bytes a call may send on stream 0.
    ///
    /// # Errors
    /// [`Error::Answered`] if it was answered, or why the connection has ended.
    pub(super) fn credit(&self, number: u32) -> Result<u32, Error> {
        let calls = self.lock();
        let calls = calls.as_ref().map_err(|ended| *ended)?;
        calls.get(&number).map(|open| open.credit).ok_or(Error::Answered)
    }

    /// Uses up credit of a call.
    pub(super) fn use_credit(&self, number: u32, bytes: u32) {
        if let Ok(calls) = &mut *self.lock()
            && let Some(open) = calls.get_mut(&number)
        {
            open.credit = open.credit.saturating_sub(bytes);
        }
    }

    /// Lets the guest send more on a stream.
    pub(super) fn grant(&self, number: u32, stream: u8, bytes: u32) {
        if let Ok(calls) = &mut *self.lock()
            && let Some(open) = calls.get_mut(&number)
            && let Some(Some(room)) = index(stream).and_then(|index| open.room.get_mut(index))
        {
            *room = room.saturating_add(bytes);
        }
    }

    /// Passes a frame on to its call.
    fn pass_on(&self, frame: &Frame<'_>) -> Result<(), Violation> {
        let Ok(calls) = &mut *self.lock() else { return Ok(()) };
        // The guest may not know yet that a call was canceled.
        let Some(open) = calls.get_mut(&frame.call) else { return Ok(()) };
        let Some(event) = open.event(frame)? else { return Ok(()) };
        let is_answer = matches!(event, Event::Answer(_));
        // A call that is dropped at this moment needs no events.
        let _ = open.events.send(event);
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

/// Receives frames until the connection ends.
pub(super) fn receive(socket: &TcpStream, decoder: Decoder, calls: &Calls) {
    let ended = receive_frames(socket, decoder, calls);
    // The calls end with their senders.
    *calls.lock() = Err(ended);
    let _ = socket.shutdown(Shutdown::Both);
}

fn receive_frames(mut socket: &TcpStream, mut decoder: Decoder, calls: &Calls) -> Ended {
    loop {
        loop {
            let passed = match decoder.next() {
                Ok(None) => break,
                Ok(Some(frame)) => calls.pass_on(&frame),
                Err(violation) => Err(violation),
            };
            if let Err(Violation(rule)) = passed {
                return Ended::Violation(rule);
            }
        }
        match socket.read(decoder.space()) {
            Ok(0) => return Ended::Closed,
            Ok(read) => decoder.filled(read),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return Ended::Closed,
        }
    }
}
