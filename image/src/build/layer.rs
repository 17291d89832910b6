//! The archive of a layer that is being built.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufWriter, Read, Seek as _, SeekFrom, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use sha2::{Digest as _, Sha256};
use tar::{Builder, EntryType};

use crate::digest::Digest;
use crate::errors::{Result, at};
use crate::export::{Hashed, header, pack_files};

/// A layer that is being built. Root owns all of its files. Paths are relative, and their parents must be directories in the image, or
/// added before.
pub struct NewLayer {
    archive: Builder<Hashed<BufWriter<File>>>,
    is_empty: bool,
}

impl NewLayer {
    pub(super) fn new(directory: &Path) -> Result<Self> {
        let file = tempfile::tempfile_in(directory).map_err(at("create a file in", directory))?;
        let hashed = Hashed { inner: BufWriter::new(file), hasher: Sha256::new() };
        Ok(Self { archive: Builder::new(hashed), is_empty: true })
    }

    /// Adds a directory.
    pub fn add_directory(&mut self, path: &Path, mode: u32, mtime: u64) -> io::Result<()> {
        check_path(path)?;
        self.is_empty = false;
        let mut header = header(EntryType::Directory, mode & 0o1777, mtime, 0);
        self.archive.append_data(&mut header, path, io::empty())
    }

    /// Adds a file of a known size. Fails if the content has another size.
    pub fn add_file(
        &mut self,
        path: &Path,
        mode: u32,
        mtime: u64,
        size: u64,
        content: impl Read,
    ) -> io::Result<()> {
        check_path(path)?;
        self.is_empty = false;
        let mut header = header(EntryType::Regular, mode & 0o1777, mtime, size);
        let mut content = Counted { inner: content.take(size), count: 0 };
        self.archive.append_data(&mut header, path, &mut content)?;
        if content.count != size {
            return Err(io::Error::other("it changed while it was read"));
        }
        Ok(())
    }

    /// Adds a symbolic link.
    pub fn add_link(&mut self, path: &Path, target: &Path, mtime: u64) -> io::Result<()> {
        check_path(path)?;
        self.is_empty = false;
        let mut header = header(EntryType::Symlink, 0o777, mtime, 0);
        self.archive.append_link(&mut header, path, target)
    }

    /// Adds the changes that an overlay has recorded in its upper directory, without those that are left out: paths of files, or of
    /// directories with everything below. The directory is not used again: modes in it are changed.
    pub fn add_changes(&mut self, upper: &Path, is_left_out: &dyn Fn(&Path) -> bool) -> io::Result<()> {
        let count = pack_files(&mut self.archive, upper, is_left_out, true)?;
        self.is_empty &= count == 0;
        Ok(())
    }

    /// Returns the archive and its digest, or `None` if nothing was added.
    pub(super) fn finish(self) -> Result<Option<(File, Digest)>> {
        if self.is_empty {
            return Ok(None);
        }
        let finish = || -> io::Result<_> {
            let mut hashed = self.archive.into_inner()?;
            hashed.flush()?;
            let digest = Digest::finish(hashed.hasher);
            let mut file = hashed.inner.into_inner().map_err(io::IntoInnerError::into_error)?;
            file.seek(SeekFrom::Start(0))?;
            Ok((file, digest))
        };
        finish().map(Some).map_err(at("write", Path::new("a layer")))
    }
}

/// Refuses names with a meaning in layers: a file named like a whiteout would remove another one.
fn check_path(path: &Path) -> io::Result<()> {
    let is_whiteout = |part: &OsStr| part.as_bytes().starts_with(b".wh.");
    if path.iter().any(is_whiteout) {
        return Err(io::Error::other("names that begin with `.wh.` cannot be in an image"));
    }
    Ok(())
}

struct Counted<R> {
    inner: R,
    count: u64,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.inner.read(buffer)?;
        self.count += count as u64;
        Ok(count)
    }
}
