//! The messages of a driver: frames (RS, JSON, LF) between the raw output of the programs that it runs.

use serde::Deserialize;

/// The record separator, at which a frame begins. JSON contains none.
const RS: u8 = 0x1e;
/// The maximum length of a frame. A longer one is dropped.
const LONGEST: usize = 16 << 20;

/// A message of a driver.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Message {
    /// The driver can receive requests.
    Ready,
    /// The driver has started a request.
    Begin { id: String },
    /// Text that the code has printed.
    Stdout { text: String },
    /// Text that the code has printed to standard error.
    Stderr { text: String },
    /// A displayed value.
    Display { mime: String, data: String },
    /// The text of the last value.
    Result { text: String },
    /// The driver has finished a request. On standard error, this message has only the ID.
    End {
        id: String,
        #[serde(default)]
        exit_code: Option<i32>,
        #[serde(default)]
        error: Option<super::CodeError>,
    },
}

/// A part of a stream.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// Bytes that a program has written directly.
    Raw(Vec<u8>),
    /// A message of the driver.
    Message(Message),
}

/// Splits a stream into its parts.
#[derive(Debug, Default)]
pub(super) struct Frames {
    /// The incomplete frame.
    frame: Option<Vec<u8>>,
}

impl Frames {
    /// Returns the parts that are complete with these bytes. A frame that is interrupted by another one is dropped.
    pub(super) fn split_parts(&mut self, mut bytes: &[u8]) -> Vec<Part> {
        let mut parts = Vec::new();
        while !bytes.is_empty() {
            let is_end = |byte: &u8| *byte == RS || (self.frame.is_some() && *byte == b'\n');
            let end = bytes.iter().position(is_end);
            let (part, rest) = bytes.split_at(end.unwrap_or(bytes.len()));
            match &mut self.frame {
                Some(frame) if frame.len() + part.len() <= LONGEST => frame.extend_from_slice(part),
                // The rest of a frame that is too long cannot be parsed, so it is dropped as well.
                Some(frame) => frame.clear(),
                None if part.is_empty() => {}
                None => parts.push(Part::Raw(part.to_vec())),
            }
            match rest.split_first() {
                Some((&RS, after)) => (self.frame, bytes) = (Some(Vec::new()), after),
                Some((_, after)) => {
                    let frame = self.frame.take().unwrap_or_default();
                    parts.extend(serde_json::from_slice(&frame).ok().map(Part::Message));
                    bytes = after;
                }
                None => break,
            }
        }
        parts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_between_raw_output() {
        let stream = b"raw\n\x1e{\"type\":\"stdout\",\"text\":\"a\\n\"}\nmore\x1e{\"type\":\"std\x1e{\"type\":\"begin\",\"id\":\"1\"}\n";
        let expected = [
            Part::Raw(b"raw\n".to_vec()),
            Part::Message(Message::Stdout { text: "a\n".into() }),
            Part::Raw(b"more".to_vec()),
            Part::Message(Message::Begin { id: "1".into() }),
        ];
        assert_eq!(Frames::default().split_parts(stream), expected);
        // The same, byte by byte.
        let mut frames = Frames::default();
        let mut parts: Vec<Part> = Vec::new();
        for part in stream.chunks(1).flat_map(|byte| frames.split_parts(byte)) {
            match (parts.last_mut(), part) {
                (Some(Part::Raw(raw)), Part::Raw(more)) => raw.extend(more),
                (_, part) => parts.push(part),
            }
        }
        assert_eq!(parts, expected);
        assert_eq!(Frames::default().split_parts(b"\x1enonsense\n"), []);
    }
}
