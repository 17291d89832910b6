//! The frames of an archive: zstd frames, each preceded by a skippable frame with its length, as pzstd writes them. Every zstd
//! decoder reads them, and a reader knows how much memory a frame needs before it decodes it.

use koze_protocol::tar::Damaged;

use super::codec::{compress_content, decompress_frame};
use crate::error::{Code, Error, Result};

/// The magic number of the skippable frames that hold a length.
const LENGTH: u32 = 0x184D_2A50;
/// The size of such a frame: magic number, size of the content, content.
const HEAD: usize = 12;
/// How much content a frame holds.
pub(super) const CONTENT: usize = 1 << 20;
/// The maximum length of a frame. Content that cannot be compressed grows a little.
const MAX_FRAME: usize = CONTENT + (64 << 10);

/// Returns content as a frame, with the skippable one before it.
pub(super) fn encode_frame(content: &[u8]) -> Result<Vec<u8>> {
    let compressed = compress_content(content).map_err(|why| {
        Error::new(Code::Internal, "the snapshot cannot be compressed")
            .with_source(std::io::Error::other(why))
    })?;
    let mut frame = Vec::with_capacity(HEAD + compressed.len());
    frame.extend(LENGTH.to_le_bytes());
    frame.extend(4_u32.to_le_bytes());
    frame.extend(u32::try_from(compressed.len()).unwrap_or(u32::MAX).to_le_bytes());
    frame.extend(compressed);
    Ok(frame)
}

/// Returns the content of a frame without the skippable one.
///
/// # Errors
/// [`Code::InvalidInput`] if it cannot be decompressed.
pub(super) fn decode_frame(frame: &[u8]) -> Result<Vec<u8>> {
    // One byte more, so that a longer content is noticed.
    let content = decompress_frame(frame, CONTENT + 1).map_err(|why| {
        damaged_error("a part of it cannot be decompressed").with_source(std::io::Error::other(why))
    })?;
    if content.len() > CONTENT { Err(damaged_error("a part of it is too large")) } else { Ok(content) }
}

/// Takes apart frames that arrive in pieces.
#[derive(Default)]
pub(super) struct Frames {
    collected: Vec<u8>,
}

impl Frames {
    /// Adds bytes of the archive.
    pub(super) fn add_bytes(&mut self, bytes: &[u8]) {
        self.collected.extend_from_slice(bytes);
    }

    /// Returns the next frame, if it has arrived completely.
    ///
    /// # Errors
    /// [`Code::InvalidInput`] if the bytes are not frames.
    pub(super) fn next_frame(&mut self) -> Result<Option<Vec<u8>>> {
        let Some(head) = self.collected.get(..HEAD) else { return Ok(None) };
        let word = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
        let length = usize::try_from(word(8)).unwrap_or(usize::MAX);
        if word(0) != LENGTH || word(4) != 4 || length > MAX_FRAME {
            return Err(damaged_error("it is not a koze archive"));
        }
        let Some(frame) = self.collected.get(HEAD..HEAD + length) else { return Ok(None) };
        let frame = frame.to_vec();
        self.collected.drain(..HEAD + length);
        Ok(Some(frame))
    }

    /// Checks that no frame is incomplete at the end.
    ///
    /// # Errors
    /// [`Code::InvalidInput`] if one is.
    pub(super) fn check_end(&self) -> Result<()> {
        if self.collected.is_empty() { Ok(()) } else { Err(damaged_error("its end is missing")) }
    }
}

/// Returns the error for an archive that cannot be read.
pub(super) fn damaged_error(why: &'static str) -> Error {
    crate::archive::damaged_error(Damaged(why))
}

#[cfg(test)]
mod tests {
    use ruzstd::decoding::FrameDecoder;
    use ruzstd::encoding::{CompressionLevel, compress_to_vec};

    use super::*;

    fn mixed() -> Vec<u8> {
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
        content.chunks(CONTENT).flat_map(|content| encode_frame(content).unwrap()).collect()
    }

    fn decompressed(bytes: &[u8], piece: usize) -> Result<Vec<u8>> {
        let (mut frames, mut all) = (Frames::default(), Vec::new());
        for bytes in bytes.chunks(piece) {
            frames.add_bytes(bytes);
            while let Some(frame) = frames.next_frame()? {
                all.extend(decode_frame(&frame)?);
            }
        }
        frames.check_end().map(|()| all)
    }

    #[test]
    fn content_survives_in_pieces_of_any_size() {
        let content = mixed();
        let bytes = compressed(&content);
        assert!(bytes.len() < content.len() - CONTENT, "it is compressed");
        for piece in [1009, 1 << 20, bytes.len()] {
            assert!(decompressed(&bytes, piece).unwrap() == content);
        }
        assert!(decompressed(&[], 1).unwrap().is_empty());
    }

    #[test]
    fn any_zstd_decoder_reads_it() {
        let content = mixed();
        let mut read = vec![0; content.len()];
        let size = FrameDecoder::new().decode_all(&compressed(&content), &mut read).unwrap();
        assert!(size == content.len() && read == content);
    }

    #[test]
    fn what_a_worker_writes_is_read() {
        let content = mixed();
        let parts = content.chunks(CONTENT).map(|part| compress_to_vec(part, CompressionLevel::Fastest));
        for (frame, part) in parts.zip(content.chunks(CONTENT)) {
            assert!(super::decode_frame(&frame).unwrap() == part);
        }
    }

    #[test]
    fn damage_is_an_error() {
        let bytes = compressed(b"some content");
        for length in 1..bytes.len() {
            assert!(decompressed(&bytes[..length], 7).is_err(), "{length} bytes");
        }
        assert!(decompressed(b"no archive, but text", 7).is_err());
        // It declares a length that no frame has.
        let huge = [LENGTH.to_le_bytes(), 4_u32.to_le_bytes(), u32::MAX.to_le_bytes()].concat();
        assert!(decompressed(&huge, 12).is_err());
        // It decompresses to more than a frame holds.
        let bomb = compress_to_vec(&vec![0; 3 * CONTENT][..], CompressionLevel::Fastest);
        let length = u32::try_from(bomb.len()).unwrap().to_le_bytes();
        let bomb = [&LENGTH.to_le_bytes()[..], &4_u32.to_le_bytes(), &length, &bomb].concat();
        assert!(decompressed(&bomb, 4096).is_err());
    }
}
