//! The frames of a connection, in both directions: `u32` length of the rest, `u32` call, `u8` kind, payload. Numbers
//! are little-endian.
//!
//! | kind | name | from | payload |
//! |---|---|---|---|
//! | 0 | hello | class, call 0, first frame | JSON of [`Hello`](super::request::Hello) |
//! | 1 | welcome | guest, call 0 | JSON of [`Welcome`](super::request::Welcome) |
//! | 2 | request | class | JSON of a [`Request`](super::request::Request), in pieces: the first one that is shorter than [`PIECE`] is the last |
//! | 3 | answer | guest | JSON of an [`Answer`](super::request::Answer), in pieces likewise; the last frame of the call |
//! | 4 | data | both | `u8` stream, at most [`PIECE`] bytes |
//! | 5 | end | both | `u8` stream, which is complete |
//! | 6 | credit | both | `u8` stream, `u32` additional bytes that may be sent on it |
//! | 7 | cancel | class | empty; cancels the call |
//!
//! Stream 0 goes to the guest, streams 1 and 2 come from it. Each starts with [`CREDIT`] bytes of credit.

use std::fmt;

/// The port at which the guest listens.
pub const PORT: u16 = 5693;
/// The maximum number of bytes of a stream, a request or an answer in one frame.
pub const PIECE: usize = 64 << 10;
/// The maximum length of a frame in bytes, without the four bytes of its length field.
pub const MAX_FRAME: usize = PIECE + 16;
/// The initial credit of a stream, in bytes.
pub const CREDIT: u32 = 512 << 10;
/// The length of a frame header: length, call, kind.
pub const HEAD: usize = 9;
/// The length of the header of a data frame: the same, and the stream.
pub const DATA_HEAD: usize = HEAD + 1;

/// The kind of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[expect(missing_docs, reason = "documented in the table above")]
pub enum Kind {
    Hello,
    Welcome,
    Request,
    Answer,
    Data,
    End,
    Credit,
    Cancel,
}

/// All kinds, indexed by their numbers.
const KINDS: [Kind; 8] = [
    Kind::Hello,
    Kind::Welcome,
    Kind::Request,
    Kind::Answer,
    Kind::Data,
    Kind::End,
    Kind::Credit,
    Kind::Cancel,
];

/// A received frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame<'a> {
    /// The number of its call; 0 is the handshake.
    pub call: u32,
    /// Its kind.
    pub kind: Kind,
    /// Its payload.
    pub payload: &'a [u8],
}

impl<'a> Frame<'a> {
    /// Splits the payload into its stream number and the rest.
    ///
    /// # Errors
    /// If the payload is empty.
    pub fn stream(&self) -> Result<(u8, &'a [u8]), Violation> {
        let (stream, rest) = self.payload.split_first().ok_or(Violation("a frame has no stream"))?;
        Ok((*stream, rest))
    }
}

/// A violation of the protocol, with the broken rule. It ends the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Violation(pub &'static str);

impl fmt::Display for Violation {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(self.0)
    }
}

/// Returns the header of a frame whose payload has `payload` bytes.
pub fn head(call: u32, kind: Kind, payload: usize) -> [u8; HEAD] {
    // No payload is longer than a frame.
    let length = u32::try_from(payload + HEAD - 4).unwrap_or(u32::MAX);
    let mut head = [0; HEAD];
    head[..4].copy_from_slice(&length.to_le_bytes());
    head[4..8].copy_from_slice(&call.to_le_bytes());
    head[8] = kind as u8;
    head
}

/// Returns the header of a data frame with `bytes` bytes.
pub fn data_head(call: u32, stream: u8, bytes: usize) -> [u8; DATA_HEAD] {
    let mut all = [stream; DATA_HEAD];
    all[..HEAD].copy_from_slice(&head(call, Kind::Data, bytes + 1));
    all
}

/// Encodes a frame. The payload has at most [`PIECE`] bytes, plus one if it starts with a stream number.
pub fn encode(call: u32, kind: Kind, payload: &[u8]) -> Vec<u8> {
    [&head(call, kind, payload.len())[..], payload].concat()
}

/// Encodes a text that may need several frames: every piece but the last has [`PIECE`] bytes.
pub fn encode_text(call: u32, kind: Kind, text: &[u8]) -> Vec<u8> {
    let mut frames = Vec::with_capacity(text.len() + HEAD * (text.len() / PIECE + 1));
    let mut rest = text;
    loop {
        let (piece, after) = rest.split_at(rest.len().min(PIECE));
        frames.extend_from_slice(&head(call, kind, piece.len()));
        frames.extend_from_slice(piece);
        if piece.len() < PIECE {
            return frames;
        }
        rest = after;
    }
}

/// Decodes frames from bytes that arrive in pieces of any length. Its buffer has a fixed size.
#[derive(Debug)]
pub struct Decoder {
    buffer: Box<[u8]>,
    start: usize,
    end: usize,
    longest: usize,
}

impl Decoder {
    /// Creates a decoder for frames of at most `longest` bytes.
    pub fn new(longest: usize) -> Self {
        // Room for two frames, so that the start of the next one seldom has to be moved.
        Decoder { buffer: vec![0; 2 * (longest + 4)].into(), start: 0, end: 0, longest }
    }

    /// Returns a decoder for longer frames that keeps the bytes received so far.
    #[must_use]
    pub fn lengthened(self, longest: usize) -> Self {
        let mut longer = Decoder::new(longest.max(self.longest));
        let left = &self.buffer[self.start..self.end];
        longer.buffer[..left.len()].copy_from_slice(left);
        longer.end = left.len();
        longer
    }

    /// Returns the buffer for the next bytes. It is never empty after [`next`](Self::next) has returned all complete
    /// frames.
    pub fn space(&mut self) -> &mut [u8] {
        // Half a frame of space is enough for a read. The incomplete frame is then moved to the front.
        if self.start > 0 && (self.start == self.end || self.buffer.len() - self.end < self.longest / 2) {
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        &mut self.buffer[self.end..]
    }

    /// Marks bytes of [`space`](Self::space) as received.
    pub fn filled(&mut self, bytes: usize) {
        self.end = (self.end + bytes).min(self.buffer.len());
    }

    /// Returns the next frame if it is complete.
    ///
    /// # Errors
    /// If the bytes are not a valid frame.
    #[expect(clippy::should_implement_trait, reason = "the frame borrows from the decoder")]
    pub fn next(&mut self) -> Result<Option<Frame<'_>>, Violation> {
        let (start, end) = (self.start, self.end);
        let Some(prefix) = self.buffer[start..end].first_chunk() else { return Ok(None) };
        let length = u32::from_le_bytes(*prefix) as usize;
        if length > self.longest {
            return Err(Violation("a frame is too long"));
        }
        if length < HEAD - 4 {
            return Err(Violation("a frame is too short"));
        }
        if end - start < length + 4 {
            return Ok(None);
        }
        self.start += length + 4;
        let frame = &self.buffer[start + 4..start + 4 + length];
        let (call, rest) = frame.split_first_chunk().ok_or(Violation("a frame is too short"))?;
        let (kind, payload) = rest.split_first().ok_or(Violation("a frame is too short"))?;
        let kind = *KINDS.get(usize::from(*kind)).ok_or(Violation("a frame has an unknown kind"))?;
        Ok(Some(Frame { call: u32::from_le_bytes(*call), kind, payload }))
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::prelude::*;

    use super::*;
    use crate::request;

    /// Decodes bytes that arrive in pieces of these lengths, in turn.
    fn decoded(
        bytes: &[u8],
        pieces: &[usize],
        longest: usize,
    ) -> Result<Vec<(u32, Kind, Vec<u8>)>, Violation> {
        let mut decoder = Decoder::new(longest);
        let (mut all, mut rest, mut pieces) = (Vec::new(), bytes, pieces.iter().cycle());
        while !rest.is_empty() {
            let space = decoder.space();
            assert!(!space.is_empty(), "there is always room for more");
            let length = rest.len().min(space.len()).min(*pieces.next().unwrap());
            space[..length].copy_from_slice(&rest[..length]);
            decoder.filled(length);
            rest = &rest[length..];
            while let Some(frame) = decoder.next()? {
                all.push((frame.call, frame.kind, frame.payload.to_vec()));
            }
        }
        Ok(all)
    }

    #[test]
    fn frames_match_the_table() {
        assert_eq!(encode(7, Kind::Cancel, &[]), [5, 0, 0, 0, 7, 0, 0, 0, 7]);
        assert_eq!(data_head(0x0102_0304, 2, 3), [9, 0, 0, 0, 4, 3, 2, 1, 4, 2]);
        for (number, kind) in (0..).zip(KINDS) {
            assert_eq!(encode(1, kind, &[])[8], number);
        }
    }

    /// A number of bytes as JavaScript.
    fn bytes(number: usize) -> String {
        match number.trailing_zeros() {
            20.. => format!("{} << 20", number >> 20),
            10.. => format!("{} << 10", number >> 10),
            _ => number.to_string(),
        }
    }

    /// The constants of the protocol as JavaScript.
    fn constants() -> String {
        let kinds: Vec<String> = (0..)
            .zip(KINDS)
            .map(|(number, kind): (usize, _)| format!("{}: {number}", format!("{kind:?}").to_lowercase()))
            .collect();
        format!(
            "\n/** The port of the guest in its container. Clients need its token. */\n\
             export const PORT = {PORT};\n\n\
             const PROTOCOL = {};\n\n\
             const KIND = {{ {} }};\n\n\
             /** The maximum payload of a frame, and the maximum length of the rest of a frame. */\n\
             const MAX_PIECE = {};\n\
             const MAX_FRAME = MAX_PIECE + {};\n\n\
             /** The maximum size of a request, over all its frames. */\n\
             const LARGEST_REQUEST = {};\n\n\
             /** The initial credit of a stream, in bytes. */\n\
             const CREDIT = {};\n\n",
            request::PROTOCOL,
            kinds.join(", "),
            bytes(PIECE),
            MAX_FRAME - PIECE,
            bytes(request::MAX_REQUEST),
            bytes(CREDIT as usize),
        )
    }

    #[test]
    fn the_class_has_the_same_constants() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../templates/files/generated/koze/guest.mjs");
        let text = std::fs::read_to_string(path).unwrap();
        let (before, rest) = text.split_once("// The constants of the protocol.\n").unwrap();
        let (found, after) = rest.split_once("// The limits of this client.\n").unwrap();
        if std::env::var_os("KOZE_BLESS").is_some() {
            let constants = constants();
            let text = format!(
                "{before}// The constants of the protocol.\n{constants}// The limits of this client.\n{after}"
            );
            std::fs::write(path, text).unwrap();
            return;
        }
        assert_eq!(found, constants(), "guest.mjs has other constants: run the test with KOZE_BLESS=1");
    }

    #[test]
    fn invalid_lengths() {
        for length in [0, 1, 4, u32::try_from(MAX_FRAME).unwrap() + 1, u32::MAX] {
            let mut bytes = length.to_le_bytes().to_vec();
            bytes.extend([0; 16]);
            assert!(decoded(&bytes, &[99], MAX_FRAME).is_err(), "{length}");
        }
        let mut odd = encode(1, Kind::Cancel, &[]);
        odd[8] = 8;
        assert!(decoded(&odd, &[99], MAX_FRAME).is_err());
        let long = encode(1, Kind::Data, &vec![0; PIECE + 1]);
        assert_eq!(decoded(&long, &[usize::MAX], MAX_FRAME).unwrap().len(), 1);
    }

    #[test]
    fn texts_end_in_a_short_piece() {
        for length in [0, 1, PIECE - 1, PIECE, PIECE + 1, 2 * PIECE, 3 * PIECE + 5] {
            let text: Vec<u8> = (0..=255).cycle().take(length).collect();
            let frames = decoded(&encode_text(3, Kind::Request, &text), &[1 << 20], MAX_FRAME).unwrap();
            assert_eq!(frames.len(), length / PIECE + 1);
            let (last, first) = frames.split_last().unwrap();
            assert!(last.2.len() < PIECE && first.iter().all(|frame| frame.2.len() == PIECE));
            assert_eq!(frames.iter().flat_map(|frame| frame.2.clone()).collect::<Vec<_>>(), text);
        }
    }

    proptest! {
        #[test]
        fn there_and_back(
            frames in vec((any::<u32>(), 0..8_usize, vec(any::<u8>(), 0..300)), 0..20),
            pieces in vec(1..700_usize, 1..8),
        ) {
            let frames: Vec<_> = frames.into_iter().map(|(call, kind, load)| (call, KINDS[kind], load)).collect();
            let bytes: Vec<u8> = frames.iter().flat_map(|(call, kind, load)| encode(*call, *kind, load)).collect();
            prop_assert_eq!(decoded(&bytes, &pieces, 305).unwrap(), frames);
        }

        #[test]
        fn any_bytes_in_any_pieces_mean_the_same(
            bytes in vec(any::<u8>(), 0..400),
            pieces in vec(1..50_usize, 1..8),
        ) {
            prop_assert_eq!(decoded(&bytes, &pieces, 60), decoded(&bytes, &[1], 60));
        }

        #[test]
        fn lengthened_in_the_middle(load in vec(any::<u8>(), 0..500), cut in 0..60_usize) {
            let bytes = [encode(0, Kind::Hello, b"{}"), encode(1, Kind::Data, &load)].concat();
            let cut = cut.min(bytes.len());
            let mut decoder = Decoder::new(40);
            decoder.space()[..cut].copy_from_slice(&bytes[..cut]);
            decoder.filled(cut);
            let hello = decoder.next().unwrap().is_some();
            let mut decoder = decoder.lengthened(600);
            let rest = bytes.len() - cut;
            decoder.space()[..rest].copy_from_slice(&bytes[cut..]);
            decoder.filled(rest);
            if !hello {
                prop_assert_eq!(decoder.next().unwrap().unwrap().kind, Kind::Hello);
            }
            prop_assert_eq!(decoder.next().unwrap().unwrap().payload, &load[..]);
        }
    }
}
