//! The open calls of one connection, and the rules for its frames. It does no I/O: it returns complete requests.

use std::collections::HashMap;
use std::sync::Arc;

use super::budget::Held;
use super::frame::{Frame, Kind, PIECE, Violation};
use super::request::{self, Request};
use super::streams::Streams;
use crate::message::{Code, Fault};

/// The maximum number of open calls, including those that wait to run.
const MAX_CALLS: usize = 1024;

/// A complete request.
#[derive(Debug)]
pub struct NewCall {
    /// The number of its call.
    pub call: u32,
    /// The request, or why it is invalid.
    pub request: Result<Request, Fault>,
    /// The streams of its call.
    pub streams: Arc<Streams>,
    /// The memory that it uses.
    pub held: Held,
}

/// The open calls.
#[derive(Debug, Default)]
pub struct Table {
    open: HashMap<u32, Open>,
    /// The highest call number so far. Numbers only grow, so a lower number that is not open belongs to a finished
    /// call.
    highest: u32,
}

#[derive(Debug)]
enum Open {
    /// Its request is incomplete.
    Asking(Vec<u8>, Held),
    Working(Arc<Streams>),
}

impl Table {
    /// Processes a frame. Returns the request that it completes, if any.
    ///
    /// # Errors
    /// If the frame violates the protocol. The connection then ends.
    pub fn take(&mut self, frame: &Frame<'_>) -> Result<Option<NewCall>, Violation> {
        match frame.kind {
            Kind::Request => return self.request(frame.call, frame.payload),
            Kind::Data => {
                let (stream, bytes) = frame.stream()?;
                if bytes.len() > PIECE {
                    return Err(Violation("a frame has too much data"));
                }
                if let Some(streams) = self.working(frame.call)? {
                    streams.arrived(stream, bytes)?;
                }
            }
            Kind::End => {
                let (stream, []) = frame.stream()? else { return Err(Violation("an end frame is too long")) };
                if let Some(streams) = self.working(frame.call)? {
                    streams.ended(stream)?;
                }
            }
            Kind::Credit => {
                let (stream, bytes) = frame.stream()?;
                let bytes =
                    bytes.try_into().map_err(|_| Violation("credit is not a number of four bytes"))?;
                if let Some(streams) = self.working(frame.call)? {
                    streams.credit(stream, u32::from_le_bytes(bytes))?;
                }
            }
            Kind::Cancel => {
                if !frame.payload.is_empty() {
                    return Err(Violation("a cancel frame is too long"));
                }
                self.known(frame.call)?;
                if let Some(Open::Working(streams)) = self.open.remove(&frame.call) {
                    streams.stop();
                }
            }
            Kind::Hello => return Err(Violation("received a second hello")),
            Kind::Welcome | Kind::Answer => {
                return Err(Violation("received a frame that only the guest sends"));
            }
        }
        Ok(None)
    }

    fn request(&mut self, call: u32, piece: &[u8]) -> Result<Option<NewCall>, Violation> {
        if piece.len() > PIECE {
            return Err(Violation("a part of a request is too long"));
        }
        // The call stays in the table, so that it is stopped with the others.
        if let Some(Open::Working(_)) = self.open.get(&call) {
            return Err(Violation("a call was started twice"));
        }
        let (mut text, mut held) = match self.open.remove(&call) {
            Some(Open::Asking(text, held)) => (text, held),
            _ if call <= self.highest => {
                return Err(Violation("the number of a call is not greater than the previous ones"));
            }
            _ if self.open.len() >= MAX_CALLS => return Err(Violation("too many calls at once")),
            _ => {
                self.highest = call;
                (Vec::new(), Held::default())
            }
        };
        if text.len() + piece.len() > request::MAX_REQUEST {
            return Err(Violation("a request is too long"));
        }
        held.more(piece.len())?;
        text.extend_from_slice(piece);
        if piece.len() == PIECE {
            self.open.insert(call, Open::Asking(text, held));
            return Ok(None);
        }
        let request = serde_json::from_slice(&text).map_err(|error| {
            Fault::new(Code::InvalidInput, format!("the guest does not understand the request: {error}"))
        });
        // It is unknown whether an invalid request sends data, so data is accepted.
        let takes = matches!(
            request,
            Ok(Request::Write(_)
                | Request::Edit(_)
                | Request::Unpack(_)
                | Request::Extract(_)
                | Request::WriteProcess(_)
                | Request::Accept(_)
                | Request::Connect(_))
                | Err(_)
        );
        let streams = Arc::new(Streams::new(takes));
        self.open.insert(call, Open::Working(Arc::clone(&streams)));
        Ok(Some(NewCall { call, request, streams, held }))
    }

    /// Returns the streams of a running call, or `None` if it is finished.
    fn working(&self, call: u32) -> Result<Option<&Arc<Streams>>, Violation> {
        self.known(call)?;
        match self.open.get(&call) {
            Some(Open::Working(streams)) => Ok(Some(streams)),
            Some(Open::Asking(..)) => {
                Err(Violation("received a frame before the request of its call was complete"))
            }
            None => Ok(None),
        }
    }

    fn known(&self, call: u32) -> Result<(), Violation> {
        // 0 is the handshake, which is complete.
        if call == 0 || call > self.highest {
            return Err(Violation("received a frame before the request of its call"));
        }
        Ok(())
    }

    /// Marks a call as finished. Frames for it that are still in flight are ignored.
    pub fn over(&mut self, call: u32) {
        self.open.remove(&call);
    }

    /// Stops all calls, at the end of the connection.
    pub fn stop(&mut self) {
        for (_, open) in self.open.drain() {
            if let Open::Working(streams) = open {
                streams.stop();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::super::frame::{CREDIT, Decoder, MAX_FRAME, encode, encode_text};
    use super::*;

    const WRITE: &[u8] = br#"{"write":{"root":"/","path":"/x"}}"#;
    const STAT: &[u8] = br#"{"stat":{"root":"/","path":"/x"}}"#;

    /// Processes frames. Returns the requests, or the rule that was broken.
    fn play(frames: &[Vec<u8>]) -> Result<Vec<NewCall>, Violation> {
        play_on(&mut Table::default(), frames)
    }

    fn play_on(table: &mut Table, frames: &[Vec<u8>]) -> Result<Vec<NewCall>, Violation> {
        let mut decoder = Decoder::new(MAX_FRAME);
        let mut all = Vec::new();
        for bytes in frames.concat().chunks(4096) {
            decoder.space()[..bytes.len()].copy_from_slice(bytes);
            decoder.filled(bytes.len());
            while let Some(frame) = decoder.next()? {
                all.extend(table.take(&frame)?);
            }
        }
        Ok(all)
    }

    fn ask(call: u32, text: &[u8]) -> Vec<u8> {
        encode(call, Kind::Request, text)
    }

    fn data(call: u32, bytes: &[u8]) -> Vec<u8> {
        encode(call, Kind::Data, &[&[0], bytes].concat())
    }

    fn credit(call: u32, stream: u8, bytes: u32) -> Vec<u8> {
        encode(call, Kind::Credit, &[&[stream][..], &bytes.to_le_bytes()].concat())
    }

    #[test]
    fn a_complete_call() {
        let end = encode(1, Kind::End, &[0]);
        let asked = play(&[ask(1, WRITE), data(1, b"abc"), data(1, b""), end, credit(1, 1, 5)]).unwrap();
        let [asked] = &asked[..] else { panic!("{asked:?}") };
        assert!(matches!(asked.request, Ok(Request::Write(_))));
        let mut to = [0; 9];
        assert_eq!(asked.streams.take(&mut to).unwrap().0, 3);
        assert_eq!(&to[..3], b"abc");
        assert_eq!(asked.streams.take(&mut to).unwrap().0, 0);
        assert_eq!(asked.streams.may_send(1).unwrap(), CREDIT as usize + 5);
    }

    /// The class recognizes by this text that a guest is older, and its caller then works file by file.
    #[test]
    fn unknown_requests_are_named() {
        let text = "the guest does not understand the request: unknown variant";
        let asked = play(&[ask(1, br#"{"of_tomorrow": {}}"#)]).unwrap();
        let Err(fault) = &asked[0].request else { panic!("{asked:?}") };
        assert!(fault.text.starts_with(text), "{}", fault.text);
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../templates/files/generated/koze/trees.mjs");
        let class = std::fs::read_to_string(path).unwrap();
        let unknown = class.lines().find_map(|line| line.strip_prefix("const UNKNOWN = /^"));
        let unknown = unknown.expect("the class has the expression").replace(['(', ')'], "");
        assert!(unknown.ends_with(&format!("|{text}/;")), "{unknown}");
    }

    #[test]
    fn late_frames_are_ignored() {
        let mut table = Table::default();
        play_on(&mut table, &[ask(1, WRITE), ask(2, WRITE)]).unwrap();
        table.over(1);
        let late = |call| [data(call, b"a"), credit(call, 1, 1), encode(call, Kind::End, &[0])];
        play_on(&mut table, &late(1)).unwrap();
        let cancel = |call| encode(call, Kind::Cancel, &[]);
        play_on(&mut table, &[cancel(2), cancel(2), cancel(1)]).unwrap();
        play_on(&mut table, &late(2)).unwrap();
        assert!(play_on(&mut table, &[ask(1, STAT)]).is_err());
    }

    #[test]
    fn a_cancel_and_the_end_stop_the_work() {
        let mut table = Table::default();
        let asked = play_on(&mut table, &[ask(1, WRITE), ask(2, STAT), ask(3, STAT)]).unwrap();
        play_on(&mut table, &[encode(2, Kind::Cancel, &[])]).unwrap();
        let stopped = || asked.iter().map(|asked| asked.streams.stopped()).collect::<Vec<_>>();
        assert_eq!(stopped(), [false, true, false]);
        // A violation that ends the connection also stops the call it names.
        play_on(&mut table, &[ask(3, STAT)]).unwrap_err();
        table.stop();
        assert_eq!(stopped(), [true, true, true]);
    }

    #[test]
    fn long_requests() {
        let long = format!(r#"{{"stat":{{"root":"/","path":"/{}"}}}}"#, "x".repeat(3 * PIECE));
        let asked = play(&[encode_text(1, Kind::Request, long.as_bytes())]).unwrap();
        assert!(matches!(&asked[0].request, Ok(Request::Stat(place)) if place.path.len() == 3 * PIECE + 1));
        // A request that ends with a full frame, and the interleaved pieces of two calls.
        let exact = format!("{long}{}", " ".repeat(4 * PIECE - long.len()));
        let (one, two): (Vec<_>, Vec<_>) = (0..4)
            .map(|n| {
                let piece = &exact.as_bytes()[n * PIECE..(n + 1) * PIECE];
                (ask(1, piece), ask(2, piece))
            })
            .unzip();
        let mixed: Vec<_> = one.into_iter().zip(two).flat_map(|(one, two)| [one, two]).collect();
        assert!(play(&mixed).unwrap().is_empty());
        let all = play(&[mixed.concat(), ask(2, b""), ask(1, b"")]).unwrap();
        assert!(all.iter().map(|asked| asked.call).eq([2, 1]) && all.iter().all(|one| one.request.is_ok()));
        let endless = vec![ask(1, &vec![b' '; PIECE]); request::MAX_REQUEST / PIECE + 1];
        assert!(play(&endless).is_err());
    }

    #[test]
    fn invalid_requests_are_answered() {
        let deep = format!("{}{}", "[".repeat(60_000), "]".repeat(60_000));
        for text in [&b""[..], b"{", b"\xff", b"null", br#"{"format":{}}"#, deep.as_bytes()] {
            let asked = play(&[encode_text(1, Kind::Request, text), data(1, b"a")]).unwrap();
            assert_eq!(asked[0].request.as_ref().unwrap_err().why, Code::InvalidInput);
        }
    }

    #[test]
    fn rules() {
        let hostile: &[(&str, &[Vec<u8>])] = &[
            ("hello twice", &[encode(0, Kind::Hello, b"{}")]),
            ("the guest's own", &[encode(0, Kind::Welcome, b"{}")]),
            ("an answer", &[ask(1, STAT), encode(1, Kind::Answer, b"{}")]),
            ("call 0", &[ask(0, STAT)]),
            ("a number again", &[ask(1, STAT), ask(1, STAT)]),
            ("a lower number", &[ask(2, STAT), ask(1, STAT)]),
            ("data before a request", &[data(1, b"a")]),
            ("data in a request", &[ask(1, &vec![b' '; PIECE]), data(1, b"a")]),
            ("data of the handshake", &[ask(1, STAT), data(0, b"a")]),
            ("an end before a request", &[encode(1, Kind::End, &[0])]),
            ("credit before a request", &[credit(1, 1, 1)]),
            ("a cancel before a request", &[encode(1, Kind::Cancel, &[])]),
            ("a cancel with something", &[ask(1, STAT), encode(1, Kind::Cancel, &[0])]),
            ("data without a stream", &[ask(1, WRITE), encode(1, Kind::Data, &[])]),
            ("data of stream 1", &[ask(1, WRITE), encode(1, Kind::Data, &[1, 1])]),
            ("data of stream 255", &[ask(1, WRITE), encode(1, Kind::Data, &[255, 1])]),
            ("data for what takes none", &[ask(1, STAT), data(1, b"a")]),
            ("data behind the end", &[ask(1, WRITE), encode(1, Kind::End, &[0]), data(1, b"a")]),
            ("two ends", &[ask(1, WRITE), encode(1, Kind::End, &[0]), encode(1, Kind::End, &[0])]),
            ("an end with something", &[ask(1, WRITE), encode(1, Kind::End, &[0, 0])]),
            ("more than a piece", &[ask(1, WRITE), data(1, &vec![0; PIECE + 1])]),
            (
                "more than the credit",
                &[ask(1, WRITE), data(1, &vec![0; PIECE]).repeat(CREDIT as usize / PIECE), data(1, b"a")],
            ),
            ("credit for stream 0", &[ask(1, WRITE), credit(1, 0, 1)]),
            ("credit for stream 9", &[ask(1, WRITE), credit(1, 9, 1)]),
            ("too much credit", &[ask(1, STAT), credit(1, 1, u32::MAX)]),
            ("credit of three bytes", &[ask(1, STAT), encode(1, Kind::Credit, &[1, 0, 0, 0])]),
            ("too long a piece", &[ask(1, &vec![b' '; PIECE + 1])]),
        ];
        for (what, frames) in hostile {
            assert!(play(frames).is_err(), "{what}");
        }
        let many: Vec<_> = (1..=u32::try_from(MAX_CALLS).unwrap()).map(|call| ask(call, STAT)).collect();
        assert_eq!(play(&many).unwrap().len(), MAX_CALLS);
        assert!(play(&[many.concat(), ask(5000, STAT)]).is_err());
    }

    proptest! {
        /// A call never accepts more data than its credit.
        #[test]
        fn never_more_than_the_credit(lengths in vec(0..PIECE, 1..30), takes in vec(1..PIECE, 1..30)) {
            let mut table = Table::default();
            let asked = play_on(&mut table, &[ask(1, WRITE)]).unwrap();
            let streams = &asked[0].streams;
            let (mut room, mut there, mut to) = (CREDIT as usize, 0, vec![0; PIECE]);
            let mut takes = takes.into_iter().cycle();
            for length in lengths {
                let fits = play_on(&mut table, &[data(1, &vec![1; length])]).is_ok();
                prop_assert_eq!(fits, length <= room);
                if !fits {
                    break;
                }
                (room, there) = (room - length, there + length);
                if there > 0 {
                    let (taken, given) = streams.take(&mut to[..takes.next().unwrap()]).unwrap();
                    (room, there) = (room + given.unwrap_or(0) as usize, there - taken);
                }
            }
        }
    }
}
