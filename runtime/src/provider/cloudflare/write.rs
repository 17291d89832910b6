//! Writes that exceed the limit of one call: assembled in a staging file and renamed atomically.

use super::contract::LARGEST_PIECE;
use koze_core::error::{Code, Error, Result};
use koze_core::sandbox::{Kind, Place, Sandbox, Stat, Write};

/// The maximum number of symbolic links to follow, as on Linux.
const LINKS: usize = 40;
/// How often an append is retried if the file grew meanwhile.
const MAX_ATTEMPTS: usize = 5;

/// Writes a file in several calls. Returns its size.
pub(super) async fn in_pieces<S: Pieces>(
    sandbox: &S,
    place: Place<'_>,
    bytes: &[u8],
    how: Write,
) -> Result<u64> {
    let (path, mode) = target(sandbox, place).await?;
    let place = Place { path: &path, ..place };
    let parent = path.rsplit_once('/').map_or("", |(parent, _)| parent);
    let beside = format!("{parent}/.koze-write-{}", uuid::Uuid::new_v4().simple());
    let beside = Place { path: &beside, ..place };
    let written = put_together(sandbox, place, beside, bytes, how, mode).await;
    if written.is_err() {
        // Remove a partial staging file.
        let _ = sandbox.remove(beside).await;
    }
    written.map_err(|mut error| {
        error.message = error.message.replace(beside.path, place.path);
        error
    })
}

/// A sandbox that writes one piece per call.
pub(super) trait Pieces: Sandbox {
    /// Writes a piece. Returns the size of the file.
    async fn piece(&self, place: Place<'_>, bytes: &[u8], append: bool) -> Result<u64>;
}

impl Pieces for super::CloudflareSandbox {
    async fn piece(&self, place: Place<'_>, bytes: &[u8], append: bool) -> Result<u64> {
        self.write_piece(place, bytes, append).await
    }
}

async fn put_together<S: Pieces>(
    sandbox: &S,
    place: Place<'_>,
    beside: Place<'_>,
    bytes: &[u8],
    how: Write,
    mode: Option<u32>,
) -> Result<u64> {
    for _ in 0..MAX_ATTEMPTS {
        let mut size = sandbox.piece(beside, &[], false).await?;
        let there =
            if how == Write::Append && mode.is_some() { copy(sandbox, place, beside).await? } else { 0 };
        for piece in bytes.chunks(LARGEST_PIECE as usize) {
            size = sandbox.piece(beside, piece, true).await?;
        }
        if let Some(mode) = mode {
            sandbox.set_mode(beside, mode).await?;
        }
        // Bytes that were appended meanwhile must not be lost.
        if how == Write::Append && mode.is_some() && sandbox.stat(place).await?.size != there {
            continue;
        }
        sandbox.rename(beside, place).await?;
        return Ok(size);
    }
    let message = format!("`{}` keeps changing: try again", place.path);
    Err(Error::new(Code::Unavailable, message))
}

/// Copies a file. Returns its size.
async fn copy<S: Pieces>(sandbox: &S, from: Place<'_>, to: Place<'_>) -> Result<u64> {
    let mut offset = 0;
    loop {
        let piece = sandbox.read(from, offset, u64::from(LARGEST_PIECE)).await?;
        if piece.bytes.is_empty() {
            return Ok(offset);
        }
        sandbox.piece(to, &piece.bytes, true).await?;
        offset += piece.bytes.len() as u64;
    }
}

/// Resolves links to the file itself. Returns its path, and its permission bits if it exists.
async fn target<S: Sandbox>(sandbox: &S, place: Place<'_>) -> Result<(String, Option<u32>)> {
    let mut path = place.path.to_owned();
    for _ in 0..LINKS {
        match sandbox.stat(Place { path: &path, ..place }).await {
            Ok(Stat { kind: Kind::File, mode, .. }) => return Ok((path, Some(mode))),
            Ok(Stat { kind: Kind::Link(leads), .. }) if leads.starts_with('/') => path = leads,
            Ok(Stat { kind: Kind::Link(leads), .. }) => {
                let parent = path.rsplit_once('/').map_or("", |(parent, _)| parent);
                path = format!("{parent}/{leads}");
            }
            Ok(Stat { kind: Kind::Directory, .. }) => {
                let message = format!("`{}` is a directory", place.path);
                return Err(Error::new(Code::IsDirectory, message));
            }
            Ok(Stat { kind: Kind::Other, .. }) => {
                let message = format!("`{}` is not a regular file", place.path);
                return Err(Error::new(Code::Unsupported, message));
            }
            Err(error) if error.code == Code::NotFound => return Ok((path, None)),
            Err(error) => return Err(error),
        }
    }
    let message = format!("`{}` is a symbolic link to itself", place.path);
    Err(Error::new(Code::InvalidInput, message))
}
