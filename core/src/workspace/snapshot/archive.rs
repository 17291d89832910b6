//! Archives as streams: those that are written to a store, and those that are read from one.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::stream::{Stream, StreamExt as _, TryStreamExt as _, try_unfold};
use koze_protocol::tar::{Part, Reader, What};
use sha2::{Digest, Sha256};

use super::frames::{CONTENT, Frames, damaged_error, decode_frame, encode_frame};
use super::manifest::Snapshot;
use crate::archive::{self, Bytes, Contents, Names, Tar};
use crate::error::{Code, Error, Result};
use crate::maybe_send::MaybeSend;
use crate::store::{Key, Store};

/// How much of an archive is read at once, in bytes.
const PIECE: u64 = 4 << 20;
/// How many frames are compressed or decompressed at the same time.
const AT_ONCE: usize = 4;

/// A boxed stream of bytes.
#[cfg(not(target_arch = "wasm32"))]
pub type Pieces = Pin<Box<dyn Stream<Item = Result<Vec<u8>>> + Send>>;
/// A boxed stream of bytes.
#[cfg(target_arch = "wasm32")]
pub type Pieces = Pin<Box<dyn Stream<Item = Result<Vec<u8>>>>>;

/// What was written of an archive so far.
#[derive(Clone, Default)]
pub(super) struct Written(Arc<Mutex<Sum>>);

#[derive(Clone, Default)]
struct Sum {
    contents: Contents,
    bytes: u64,
    hash: Sha256,
}

impl Written {
    fn with_sum<T>(&self, work: impl FnOnce(&mut Sum) -> T) -> T {
        work(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns the contents, the size of the archive and its hash.
    pub(super) fn sums(&self) -> (Contents, u64, String) {
        self.with_sum(|sum| (sum.contents, sum.bytes, hex_digest(sum.hash.clone())))
    }
}

/// Returns the compressed archive of a directory. Fails with `full` when it has more bytes than there is room for.
pub(super) fn of_tar(
    tar: Tar,
    room: u64,
    full: Error,
    written: Written,
) -> impl Stream<Item = Result<Vec<u8>>> + MaybeSend + 'static {
    let counted = written.clone();
    let tar = tar.map_ok(move |(bytes, contents)| {
        counted.with_sum(|sum| sum.contents = contents);
        bytes
    });
    let frames = frame_chunks(Box::pin(tar))
        .map_ok(|chunk| run_blocking(move || encode_frame(&chunk)))
        .try_buffered(AT_ONCE);
    let mut full = Some(full);
    frames.map(move |frame| {
        let frame = frame?;
        let bytes = written.with_sum(|sum| {
            sum.hash.update(&frame);
            sum.bytes += frame.len() as u64;
            sum.bytes
        });
        match full.take_if(|_| bytes > room) {
            Some(full) => Err(full),
            None => Ok(frame),
        }
    })
}

/// Returns bytes in parts of the size of a frame.
fn frame_chunks(bytes: Bytes<'static>) -> impl Stream<Item = Result<Vec<u8>>> + MaybeSend + 'static {
    try_unfold((Some(bytes), Vec::new()), |(mut bytes, mut collected)| async move {
        while collected.len() < CONTENT
            && let Some(left) = &mut bytes
        {
            match left.try_next().await? {
                Some(more) if collected.is_empty() => collected = more,
                Some(more) => collected.extend(more),
                None => bytes = None,
            }
        }
        let rest = collected.split_off(collected.len().min(CONTENT));
        Ok((!collected.is_empty()).then_some((collected, (bytes, rest))))
    })
}

/// Returns the content of an archive.
pub(super) fn read_contents(archive: Bytes<'_>) -> impl Stream<Item = Result<Vec<u8>>> + MaybeSend + use<'_> {
    let frames = try_unfold((archive, Frames::default()), |(mut archive, mut frames)| async move {
        loop {
            if let Some(frame) = frames.next_frame()? {
                return Ok(Some((frame, (archive, frames))));
            }
            match archive.try_next().await? {
                Some(bytes) => frames.add_bytes(&bytes),
                None => return frames.check_end().map(|()| None),
            }
        }
    });
    frames.map_ok(|frame| run_blocking(move || decode_frame(&frame))).try_buffered(AT_ONCE)
}

/// Works on another thread.
#[cfg(not(target_arch = "wasm32"))]
async fn run_blocking(work: impl FnOnce() -> Result<Vec<u8>> + Send + 'static) -> Result<Vec<u8>> {
    // Outside of tokio there is only one caller.
    let Ok(runtime) = tokio::runtime::Handle::try_current() else { return work() };
    runtime.spawn_blocking(work).await.map_err(|error| {
        Error::new(Code::Internal, "an archive cannot be compressed or decompressed").with_source(error)
    })?
}

/// A Worker has one thread.
#[cfg(target_arch = "wasm32")]
async fn run_blocking(work: impl FnOnce() -> Result<Vec<u8>>) -> Result<Vec<u8>> {
    work()
}

/// Returns the archive of a snapshot from a store. Fails at the end if it is not what was recorded.
pub(super) fn of_store<T: Store>(
    store: T,
    key: Key,
    snapshot: &Snapshot,
) -> impl Stream<Item = Result<Vec<u8>>> + MaybeSend + 'static {
    let check = Check::new(snapshot);
    try_unfold((store, key, 0, Some(check)), |(store, key, offset, check)| async move {
        let Some(mut check) = check else { return Ok(None) };
        let lost = || damaged_error("the store no longer has it");
        let piece = store.read_blob(&key, offset, PIECE).await?.ok_or_else(lost)?;
        check.add_bytes(&piece.bytes)?;
        let next = offset + piece.bytes.len() as u64;
        if next >= piece.size || piece.bytes.is_empty() {
            check.finish()?;
            return Ok(Some((piece.bytes, (store, key, next, None))));
        }
        Ok(Some((piece.bytes, (store, key, next, Some(check)))))
    })
}

/// Compares the bytes of an archive with what was recorded.
pub(super) struct Check {
    hash: Sha256,
    bytes: u64,
    expected: (u64, Option<String>),
}

impl Check {
    pub(super) fn new(snapshot: &Snapshot) -> Self {
        Check { hash: Sha256::new(), bytes: 0, expected: (snapshot.archive_bytes, snapshot.sha256.clone()) }
    }

    pub(super) fn add_bytes(&mut self, bytes: &[u8]) -> Result<()> {
        self.hash.update(bytes);
        self.bytes += bytes.len() as u64;
        if self.bytes > self.expected.0 {
            return Err(damaged_error("it is longer than its manifest says"));
        }
        Ok(())
    }

    pub(super) fn finish(self) -> Result<()> {
        if (self.bytes, Some(hex_digest(self.hash))) == self.expected {
            return Ok(());
        }
        Err(damaged_error("its SHA-256 is not the one in its manifest"))
    }
}

/// Reads an archive without creating its files, to know that it can be read and that its files can be created.
#[derive(Default)]
pub(super) struct Verifier {
    frames: Frames,
    tar: Reader,
    names: Names,
    contents: Contents,
}

impl Verifier {
    pub(super) fn add_bytes(&mut self, bytes: &[u8]) -> Result<()> {
        self.frames.add_bytes(bytes);
        while let Some(frame) = self.frames.next_frame()? {
            let content = decode_frame(&frame)?;
            // What follows the end is not kept.
            if self.tar.finish().is_ok() {
                continue;
            }
            self.tar.add(&content);
            while let Some(part) = self.tar.part().map_err(archive::damaged_error)? {
                let Part::Entry(entry) = part else { continue };
                self.names.check_entry(&entry)?;
                self.contents.entries += u64::from(!entry.name.is_empty());
                if let What::File(size) = entry.what {
                    self.contents.bytes = self.contents.bytes.saturating_add(size);
                }
            }
        }
        Ok(())
    }

    pub(super) fn finish(self, expected: &Contents) -> Result<()> {
        self.frames.check_end()?;
        self.tar.finish().map_err(archive::damaged_error)?;
        check_contents(&self.contents, expected)
    }
}

/// Checks that an archive had what its manifest says.
pub(super) fn check_contents(contents: &Contents, expected: &Contents) -> Result<()> {
    if (contents.entries, contents.bytes) == (expected.entries, expected.bytes) {
        return Ok(());
    }
    Err(damaged_error("it does not have the files that its manifest counts"))
}

/// Reads the file of an exported snapshot. Returns the snapshot and its archive, which fails at the end unless it is whole.
pub(super) async fn of_file(mut file: Pieces) -> Result<(Snapshot, Pieces)> {
    let mut begin = Vec::new();
    let (snapshot, length) = loop {
        if let Some(header) = Snapshot::from_header(&begin)? {
            break header;
        }
        match file.try_next().await? {
            Some(bytes) => begin.extend(bytes),
            None => return Err(Error::new(Code::InvalidInput, "the file of the snapshot is not complete")),
        }
    };
    let rest = begin.split_off(length);
    let state = (file, Some(rest), Check::new(&snapshot), Verifier::default(), snapshot.contents);
    let archive = try_unfold(Some(state), |state| async move {
        let Some((mut file, rest, mut check, mut verifier, contents)) = state else { return Ok(None) };
        let next = match rest {
            Some(rest) => Some(rest),
            None => file.try_next().await?,
        };
        let Some(bytes) = next else {
            check.finish()?;
            verifier.finish(&contents)?;
            return Ok(None);
        };
        check.add_bytes(&bytes)?;
        verifier.add_bytes(&bytes)?;
        Ok(Some((bytes, Some((file, None, check, verifier, contents)))))
    });
    Ok((snapshot, Box::pin(archive)))
}

fn hex_digest(hash: Sha256) -> String {
    use std::fmt::Write as _;
    hash.finalize().iter().fold(String::with_capacity(64), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
