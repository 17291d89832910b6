//! Messages as bytes: the length in four bytes (little-endian), and JSON.

use std::io;

use serde::Serialize;
use serde::de::DeserializeOwned;

/// The maximum length of a message in bytes.
pub const MAX: usize = 64 << 20;
/// The length of the header in bytes.
const HEADER: usize = 4;

/// Encodes a message.
///
/// # Errors
/// If it is longer than [`MAX`].
pub fn encode<T: Serialize>(message: &T) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; HEADER];
    serde_json::to_writer(&mut bytes, message)?;
    let length = bytes.len() - HEADER;
    let header = u32::try_from(length).ok().filter(|_| length <= MAX).ok_or_else(too_long)?;
    bytes[..HEADER].copy_from_slice(&header.to_le_bytes());
    Ok(bytes)
}

/// A buffer for received bytes, from which complete messages are taken.
#[derive(Debug, Default)]
pub struct Incoming(Vec<u8>);

impl Incoming {
    /// Appends received bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// Takes the next message, if it is complete.
    ///
    /// # Errors
    /// If it is longer than [`MAX`], or is not a message. The bytes after it cannot be decoded.
    pub fn take<T: DeserializeOwned>(&mut self) -> io::Result<Option<T>> {
        let Some(header) = self.0.first_chunk::<HEADER>() else { return Ok(None) };
        let length = usize::try_from(u32::from_le_bytes(*header)).unwrap_or(usize::MAX);
        if length > MAX {
            return Err(too_long());
        }
        let Some(body) = self.0.get(HEADER..HEADER + length) else { return Ok(None) };
        let message = serde_json::from_slice(body)?;
        self.0.drain(..HEADER + length);
        if self.0.is_empty() {
            // A long message leaves no large buffer.
            self.0.shrink_to(64 << 10);
        }
        Ok(Some(message))
    }
}

fn too_long() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "a message of a script is too long")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_arrive_in_pieces_of_any_length() {
        let sent = ["", "a", &"ä".repeat(100_000)];
        let mut bytes = Vec::new();
        for text in sent {
            bytes.extend(encode(&text).unwrap());
        }
        for size in [1, 3, 1000, bytes.len()] {
            let mut incoming = Incoming::default();
            let mut came = Vec::new();
            for piece in bytes.chunks(size) {
                incoming.push(piece);
                while let Some(text) = incoming.take::<String>().unwrap() {
                    came.push(text);
                }
            }
            assert_eq!(came, sent, "{size}");
        }
    }

    #[test]
    fn nonsense_is_an_error() {
        let mut incoming = Incoming::default();
        incoming.push(&u32::MAX.to_le_bytes());
        assert!(incoming.take::<String>().is_err());
        let mut incoming = Incoming::default();
        incoming.push(b"\x01\0\0\0x");
        assert!(incoming.take::<String>().is_err());
    }
}
