//! Readers between a blob and its archive: they hash, decompress and count.

use std::cell::Cell;
use std::io::{self, BufRead, Read, Seek, SeekFrom};
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};

use flate2::bufread::MultiGzDecoder;
use sha2::{Digest as _, Sha256};

use crate::digest::Digest;
use crate::errors::{Error, Result};
use crate::limits::Limits;

/// Hashes what is read.
pub(super) struct Hashed<R> {
    inner: R,
    hasher: Sha256,
}

impl<R> Hashed<R> {
    pub(super) fn new(inner: R) -> Self {
        Self { inner, hasher: Sha256::new() }
    }

    /// Returns the digest of what was read.
    pub(super) fn finish(self) -> Digest {
        Digest::finish(self.hasher)
    }
}

impl<R: Read> Read for Hashed<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.hasher.update(&buffer[..count]);
        Ok(count)
    }
}

/// Fails after a number of bytes, which another part of the program sets.
pub(crate) struct Bounded<R> {
    pub(crate) inner: R,
    pub(crate) allowance: Rc<Cell<u64>>,
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        let left = self.allowance.get().checked_sub(count as u64);
        self.allowance.set(left.ok_or_else(|| io::Error::other("a name or header is too long"))?);
        Ok(count)
    }
}

impl<R: Seek> Seek for Bounded<R> {
    fn seek(&mut self, position: SeekFrom) -> io::Result<u64> {
        self.inner.seek(position)
    }
}

/// What the layers of an image may still take, all together.
#[derive(Debug)]
pub(crate) struct Budget {
    entries: AtomicU64,
    bytes: AtomicU64,
    limits: Limits,
}

impl Budget {
    pub(crate) fn new(limits: &Limits) -> Self {
        let (entries, bytes) = (AtomicU64::new(limits.entries), AtomicU64::new(limits.unpacked_bytes));
        Self { entries, bytes, limits: *limits }
    }

    /// Counts an entry.
    pub(super) fn take_entry(&self) -> Result<()> {
        if take(&self.entries, 1) {
            return Ok(());
        }
        Err(Error::refused(format!("the image has more than {} files", self.limits.entries)))
    }

    /// Counts bytes.
    pub(super) fn take_bytes(&self, count: u64) -> io::Result<()> {
        if take(&self.bytes, count) {
            return Ok(());
        }
        let limit = self.limits.unpacked_bytes;
        let error = Error::refused(format!("the image takes more than {limit} bytes unpacked"));
        Err(io::Error::other(error))
    }

    /// Counts what is read.
    pub(super) fn bound<R: Read>(&self, inner: R) -> impl Read {
        Counted { inner, budget: self }
    }
}

/// Takes from a counter, unless it holds less.
fn take(counter: &AtomicU64, count: u64) -> bool {
    counter.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(count)).is_ok()
}

struct Counted<'a, R> {
    inner: R,
    budget: &'a Budget,
}

impl<R: Read> Read for Counted<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.budget.take_bytes(count as u64)?;
        Ok(count)
    }
}

/// Decompresses a blob. Its first bytes say how: media types are not always right.
pub(super) fn decompress<'a>(mut blob: impl BufRead + 'a) -> Result<Box<dyn Read + 'a>> {
    let start =
        blob.fill_buf().map_err(|error| Error::refused(format!("the layer cannot be read: {error}")))?;
    Ok(match start {
        [0x1f, 0x8b, ..] => Box::new(MultiGzDecoder::new(blob)),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => {
            let decoder = zstd::Decoder::with_buffer(blob);
            Box::new(decoder.map_err(|error| Error::refused(format!("the layer cannot be read: {error}")))?)
        }
        _ => Box::new(blob),
    })
}
