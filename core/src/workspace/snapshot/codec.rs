//! The two implementations of zstd: that of its authors, and in a Worker one in Rust, because no C compiler is at hand there.
//! Each reads what the other writes.

/// The level of the compression. Higher ones take much more time, and save little on what a directory of sources has.
#[cfg(not(target_arch = "wasm32"))]
const LEVEL: i32 = 1;

/// Compresses content to a frame.
#[cfg(not(target_arch = "wasm32"))]
pub(super) fn compress_content(content: &[u8]) -> Result<Vec<u8>, String> {
    zstd::bulk::compress(content, LEVEL).map_err(|error| error.to_string())
}

/// Compresses content to a frame.
#[cfg(target_arch = "wasm32")]
pub(super) fn compress_content(content: &[u8]) -> Result<Vec<u8>, String> {
    Ok(ruzstd::encoding::compress_to_vec(content, ruzstd::encoding::CompressionLevel::Fastest))
}

/// Decompresses a frame to at most so many bytes.
#[cfg(not(target_arch = "wasm32"))]
pub(super) fn decompress_frame(frame: &[u8], most: usize) -> Result<Vec<u8>, String> {
    zstd::bulk::decompress(frame, most).map_err(|error| error.to_string())
}

/// Decompresses a frame to at most so many bytes.
#[cfg(target_arch = "wasm32")]
pub(super) fn decompress_frame(frame: &[u8], most: usize) -> Result<Vec<u8>, String> {
    let mut content = vec![0; most];
    let mut decoder = ruzstd::decoding::FrameDecoder::new();
    let size = decoder.decode_all(frame, &mut content).map_err(|error| error.to_string())?;
    content.truncate(size);
    Ok(content)
}
