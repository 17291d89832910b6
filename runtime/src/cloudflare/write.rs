//! Writes that exceed the limit of one call: assembled in a staging file and renamed atomically.

use super::contract::LARGEST_PIECE;
use koze_core::error::{Code, Error, Result};
use koze_core::sandbox::{Kind, Place, Sandbox, Stat, Write, lost};

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
    if let Write::At(offset) = how {
        return append(sandbox, place, offset, bytes).await;
    }
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
        // The first step creates missing directories, so what is missing later was there.
        if error.code == Code::NotFound {
            return lost(place.path).with_source(error);
        }
        error.message = error.message.replace(beside.path, place.path);
        error
    })
}

/// A sandbox that writes one piece per call.
pub(super) trait Pieces: Sandbox {
    /// Appends a piece to a file of this size, as [`Write::At`] does. Returns the file's size.
    async fn piece(&self, place: Place<'_>, offset: u64, bytes: &[u8]) -> Result<u64>;
}

impl Pieces for super::CloudflareSandbox {
    async fn piece(&self, place: Place<'_>, offset: u64, bytes: &[u8]) -> Result<u64> {
        self.write_once(place, bytes.to_vec(), Write::At(offset)).await
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
    let is_continued = how == Write::Append && mode.is_some();
    for _ in 0..MAX_ATTEMPTS {
        let there = if is_continued { copy(sandbox, place, beside).await? } else { 0 };
        let size = append(sandbox, beside, there, bytes).await?;
        if let Some(mode) = mode {
            sandbox.set_mode(beside, mode).await?;
        }
        // Bytes that were appended meanwhile must not be lost.
        if is_continued && sandbox.stat(place).await?.size != there {
            sandbox.remove(beside).await?;
            continue;
        }
        sandbox.rename(beside, place).await?;
        return Ok(size);
    }
    let message = format!("`{}` keeps changing: try again", place.path);
    Err(Error::new(Code::Unavailable, message))
}

/// Appends bytes to a file of this size, in pieces. Returns its new size.
async fn append<S: Pieces>(sandbox: &S, place: Place<'_>, mut size: u64, bytes: &[u8]) -> Result<u64> {
    for piece in bytes.chunks(LARGEST_PIECE as usize) {
        let written = sandbox.piece(place, size, piece).await?;
        size += piece.len() as u64;
        // A guest or class that is older than the offset has appended to whatever was there.
        if written != size {
            return Err(lost(place.path));
        }
    }
    Ok(size)
}

/// Copies a file. Returns its size.
async fn copy<S: Pieces>(sandbox: &S, from: Place<'_>, to: Place<'_>) -> Result<u64> {
    let mut offset = 0;
    loop {
        let piece = sandbox.read(from, offset, u64::from(LARGEST_PIECE)).await?;
        if piece.bytes.is_empty() {
            return Ok(offset);
        }
        offset = append(sandbox, to, offset, &piece.bytes).await?;
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

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use futures_util::FutureExt as _;
    use koze_core::path::anywhere;
    use koze_core::provider::memory::{Memory, MemorySandbox};
    use koze_core::provider::{Profile, Size};
    use koze_core::{Profiles, Session, SessionId};

    use super::*;

    const FILE: &str = "/workspace/file";

    thread_local! {
        /// How many pieces are written before the container restarts, and whether its class is older than offsets.
        static RESTART: Cell<(usize, bool)> = const { Cell::new((usize::MAX, false)) };
    }

    impl Pieces for MemorySandbox {
        async fn piece(&self, place: Place<'_>, offset: u64, bytes: &[u8]) -> Result<u64> {
            let (left, is_old) = RESTART.get();
            RESTART.set((left.wrapping_sub(1), is_old));
            if left == 0 {
                self.remove(anywhere("/workspace")).await?;
            }
            let how = if is_old { Write::Append } else { Write::At(offset) };
            self.write(place, bytes.to_vec(), how).await
        }
    }

    /// A sandbox in memory waits for nothing.
    fn run<T>(work: impl Future<Output = T>) -> T {
        work.now_or_never().unwrap()
    }

    async fn sandbox() -> MemorySandbox {
        let profile = Profile::new("default", "debian", Size { memory_mib: 1, disk_mb: 1 });
        let profiles = Profiles::new(vec![profile], "default").unwrap();
        let session = Session::new(Memory::new(), SessionId::new("tenant", "a").unwrap(), profiles);
        session.sandbox("default").await.unwrap()
    }

    /// The first bytes, which are in the file already, and those that are appended.
    const BEFORE: usize = 3;
    const MORE: usize = LARGEST_PIECE as usize + 5;

    fn content() -> Vec<u8> {
        (0..BEFORE + MORE).map(|at| (at / 1000 % 251).to_le_bytes()[0]).collect()
    }

    /// Appends to a file with a restart before a piece. Returns the result, and what is there afterward.
    fn append_with_restart(pieces: usize, is_old: bool) -> (Result<u64>, Vec<(String, u64)>) {
        run(async {
            let (sandbox, content) = (sandbox().await, content());
            sandbox.write(anywhere(FILE), content[..BEFORE].to_vec(), Write::Replace).await.unwrap();
            RESTART.set((pieces, is_old));
            let written = in_pieces(&sandbox, anywhere(FILE), &content[BEFORE..], Write::Append).await;
            if written.is_ok() {
                assert!(sandbox.read(anywhere(FILE), 0, u64::MAX).await.unwrap().bytes == content);
            }
            let there = sandbox.list(anywhere("/workspace")).await.unwrap_or_default();
            (written, there.into_iter().map(|entry| (entry.name, entry.stat.size)).collect())
        })
    }

    #[test]
    fn what_a_restart_has_interrupted_is_not_written() {
        for is_old in [false, true] {
            // The copy of what was there, and two pieces.
            for pieces in 0..3 {
                let (written, there) = append_with_restart(pieces, is_old);
                let error = written.unwrap_err();
                assert_eq!(error.code, Code::Unavailable, "{pieces}: {error}");
                assert!(error.message.starts_with("`/workspace/file` was not written"), "{error}");
                assert_eq!(there, [], "{pieces}");
            }
            let (written, there) = append_with_restart(usize::MAX, is_old);
            let size = (BEFORE + MORE) as u64;
            assert_eq!((written, there), (Ok(size), vec![("file".to_owned(), size)]));
        }
    }

    #[test]
    fn a_new_file_does_not_lack_its_beginning() {
        for (pieces, is_old) in [(1, false), (1, true), (0, false)] {
            run(async {
                let (sandbox, content) = (sandbox().await, content());
                // So that the directory is there.
                sandbox.write(anywhere("/workspace/other"), Vec::new(), Write::Replace).await.unwrap();
                RESTART.set((pieces, is_old));
                let written = in_pieces(&sandbox, anywhere(FILE), &content, Write::Replace).await;
                let there = sandbox.read(anywhere(FILE), 0, u64::MAX).await.map(|piece| piece.bytes);
                // Nothing of a file is lost before its first piece.
                let is_lost = pieces > 0;
                assert_eq!(written.map_err(|error| error.code).err(), is_lost.then_some(Code::Unavailable));
                assert!(there.ok() == (!is_lost).then_some(content), "{pieces}, {is_old}");
            });
        }
    }

    #[test]
    fn a_piece_may_be_larger_than_a_call() {
        run(async {
            let (sandbox, content) = (sandbox().await, content());
            let write = async |offset: u64, bytes: &[u8]| {
                in_pieces(&sandbox, anywhere(FILE), bytes, Write::At(offset)).await
            };
            RESTART.set((usize::MAX, false));
            assert_eq!(write(0, &content[..BEFORE]).await, Ok(BEFORE as u64));
            assert_eq!(write(BEFORE as u64, &content[BEFORE..]).await, Ok(content.len() as u64));
            assert!(sandbox.read(anywhere(FILE), 0, u64::MAX).await.unwrap().bytes == content);
            assert_eq!(write(0, &content).await.unwrap_err().code, Code::AlreadyExists);
            sandbox.remove(anywhere(FILE)).await.unwrap();
            RESTART.set((1, false));
            assert_eq!(write(0, &content).await.unwrap_err().code, Code::Unavailable);
        });
    }
}
