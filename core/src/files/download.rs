//! Reads a file in pieces, and notices if it changes meanwhile.

use std::ops::Range;

use futures_util::stream::{Stream, try_unfold};

use crate::error::{Code, Error, Result};
use crate::maybe_send::MaybeSend;
use crate::path::anywhere;
use crate::sandbox::{Sandbox, Stat};

/// The size of a piece in bytes.
const PIECE: u64 = 4 << 20;

/// Returns a range of the bytes of a file that has these metadata. If it changes, the stream fails before its last piece:
/// what was read completely belongs to one version of the file.
pub fn download<S: Sandbox>(
    sandbox: S,
    path: String,
    stat: Stat,
    range: Range<u64>,
) -> impl Stream<Item = Result<Vec<u8>>> + MaybeSend {
    try_unfold(range, move |left| {
        let (sandbox, path, stat) = (sandbox.clone(), path.clone(), stat.clone());
        async move {
            if left.is_empty() {
                return Ok(None);
            }
            let limit = (left.end - left.start).min(PIECE);
            let piece = sandbox.read(anywhere(&path), left.start, limit).await?;
            let next = left.start + limit..left.end;
            let isnt_whole = piece.bytes.len() as u64 != limit;
            if isnt_whole || (next.is_empty() && sandbox.stat(anywhere(&path)).await? != stat) {
                let message = format!("`{path}` was changed while it was read: try again");
                return Err(Error::new(Code::Unavailable, message));
            }
            Ok(Some((piece.bytes, next)))
        }
    })
}
