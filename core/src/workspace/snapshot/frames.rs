//! The frames of an archive: zstd frames, each preceded by a skippable frame with its length, as pzstd writes them. Every zstd
//! decoder reads them, and a reader knows how much memory a frame needs before it decodes it.

use ruzstd::decoding::FrameDecoder;
use ruzstd::encoding::{CompressionLevel, compress_to_vec};

use crate::error::{Code, Error, Result};

/// The magic number of the skippable frames that hold a length.
const LENGTH: u32 = 0x184D_2A50;
/// The size of such a frame: magic number, size of the content, content.
const HEAD: usize = 12;
/// How much content a frame holds.
pub(super) const CONTENT: usize = 1 << 20;
/// The maximum length of a frame. Content that cannot be compressed grows a little.
const MAX_FRAME: usize = CONTENT + (64 << 10);

/// Collects content and compresses it.
#[derive(Debug, Default)]
pub(super) struct Compressor {
    collected: Vec<u8>,
}

impl Compressor {
    /// Adds content. Returns the complete frames.
    pub(super) fn add(&mut self, content: &[u8]) -> Vec<u8> {
        self.collected.extend_from_slice(content);
        let mut frames = Vec::new();
        let mut done = 0;
        while self.collected.len() - done >= CONTENT {
            write(&self.collected[done..done + CONTENT], &mut frames);
            done += CONTENT;
        }
        self.collected.drain(..done);
        frames
    }

    /// Returns the last frame.
    pub(super) fn finish(&mut self) -> Vec<u8> {
        let mut frames = Vec::new();
        if !self.collected.is_empty() {
            write(&std::mem::take(&mut self.collected), &mut frames);
        }
        frames
    }
}

fn write(content: &[u8], frames: &mut Vec<u8>) {
    let frame = compress_to_vec(content, CompressionLevel::Fastest);
    frames.extend(LENGTH.to_le_bytes());
    frames.extend(4_u32.to_le_bytes());
    frames.extend(u32::try_from(frame.len()).unwrap_or(u32::MAX).to_le_bytes());
    frames.extend(frame);
}

/// Decompresses frames that arrive in pieces.
#[derive(Default)]
pub(super) struct Decompressor {
    collected: Vec<u8>,
    decoder: FrameDecoder,
}

impl Decompressor {
    /// Adds bytes of the archive.
    pub(super) fn add(&mut self, bytes: &[u8]) {
        self.collected.extend_from_slice(bytes);
    }

    /// Returns the content of the next frame, if it has arrived completely.
    ///
    /// # Errors
    /// [`Code::InvalidInput`] if the bytes are not frames.
    pub(super) fn next(&mut self) -> Result<Option<Vec<u8>>> {
        let Some(head) = self.collected.get(..HEAD) else { return Ok(None) };
        let word = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let length = usize::try_from(word(8)).unwrap_or(usize::MAX);
        if word(0) != LENGTH || word(4) != 4 || length > MAX_FRAME {
            return Err(damaged("it is not a koze archive"));
        }
        let Some(frame) = self.collected.get(HEAD..HEAD + length) else { return Ok(None) };
        // One byte more, so that a longer content is noticed.
        let mut content = vec![0; CONTENT + 1];
        let size = self.decoder.decode_all(frame, &mut content).map_err(|error| {
            damaged("a part of it cannot be decompressed")
                .with_source(std::io::Error::other(error.to_string()))
        })?;
        if size > CONTENT {
            return Err(damaged("a part of it is too large"));
        }
        content.truncate(size);
        self.collected.drain(..HEAD + length);
        Ok(Some(content))
    }

    /// Checks that no frame is incomplete at the end.
    ///
    /// # Errors
    /// [`Code::InvalidInput`] if one is.
    pub(super) fn finish(&self) -> Result<()> {
        if self.collected.is_empty() { Ok(()) } else { Err(damaged("its end is missing")) }
    }
}

/// Returns the error for an archive that cannot be read.
pub(super) fn damaged(why: &str) -> Error {
    Error::new(Code::InvalidInput, format!("the archive of the snapshot is damaged: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content() -> Vec<u8> {
        let mut seed = 1_u32;
        let random = |_| {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            seed.to_be_bytes()[0]
        };
        let mut content: Vec<u8> = (0..CONTENT + 70_000).map(random).collect();
        content.extend(vec![7; 2 * CONTENT]);
        content
    }

    fn compressed(content: &[u8]) -> Vec<u8> {
        let mut compressor = Compressor::default();
        let mut bytes: Vec<u8> = content.chunks(77_777).flat_map(|piece| compressor.add(piece)).collect();
        bytes.extend(compressor.finish());
        bytes
    }

    fn decompressed(bytes: &[u8], piece: usize) -> Result<Vec<u8>> {
        let (mut decompressor, mut content) = (Decompressor::default(), Vec::new());
        for bytes in bytes.chunks(piece) {
            decompressor.add(bytes);
            while let Some(part) = decompressor.next()? {
                content.extend(part);
            }
        }
        decompressor.finish().map(|()| content)
    }

    #[test]
    fn content_survives_in_pieces_of_any_size() {
        let content = content();
        let bytes = compressed(&content);
        assert!(bytes.len() < content.len() - CONTENT, "it is compressed");
        for piece in [1009, 1 << 20, bytes.len()] {
            assert!(decompressed(&bytes, piece).unwrap() == content);
        }
        assert!(decompressed(&[], 1).unwrap().is_empty());
    }

    #[test]
    fn any_zstd_decoder_reads_it() {
        let content = content();
        let mut read = vec![0; content.len()];
        let size = FrameDecoder::new().decode_all(&compressed(&content), &mut read).unwrap();
        assert!(size == content.len() && read == content);
    }

    #[test]
    fn damage_is_an_error() {
        let bytes = compressed(b"some content");
        for length in 1..bytes.len() {
            assert!(decompressed(&bytes[..length], 7).is_err(), "{length} bytes");
        }
        assert!(decompressed(b"no archive, but text", 7).is_err());
        // It declares a length that nobody needs.
        let huge = [LENGTH.to_le_bytes(), 4_u32.to_le_bytes(), u32::MAX.to_le_bytes()].concat();
        assert!(decompressed(&huge, 12).is_err());
        // It decompresses to more than a frame holds.
        let bomb = compress_to_vec(&vec![0; 3 * CONTENT][..], CompressionLevel::Fastest);
        let length = u32::try_from(bomb.len()).unwrap().to_le_bytes();
        let bomb = [&LENGTH.to_le_bytes()[..], &4_u32.to_le_bytes(), &length, &bomb].concat();
        assert!(decompressed(&bomb, 4096).is_err());
    }
}
