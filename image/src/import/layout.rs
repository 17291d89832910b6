//! The files of a layout, in a directory or a tar archive.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use super::archive::{self, Files};
use super::check_blob;
use crate::errors::{Error, Result, at};
use crate::limits::Limits;
use crate::manifest::Descriptor;

/// The files of a layout.
pub(super) enum Layout {
    Directory(PathBuf),
    Archive(File, Files),
}

/// A file of a layout.
pub(super) struct Content {
    pub(super) reader: Window,
    pub(super) size: u64,
}

/// A part of a file.
pub(super) struct Window {
    file: File,
    position: u64,
    left: u64,
}

impl Read for Window {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let length = buffer.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        let count = self.file.read_at(&mut buffer[..length], self.position)?;
        self.position += count as u64;
        self.left -= count as u64;
        Ok(count)
    }
}

impl Layout {
    /// Opens a directory or a tar archive.
    pub(super) fn open(path: &Path, limits: &Limits) -> Result<Self> {
        if fs::metadata(path).map_err(at("read", path))?.is_dir() {
            return Ok(Layout::Directory(path.to_owned()));
        }
        let file = open_regular(path).map_err(at("read", path))?;
        let files = archive::list_files(&file, limits)?;
        Ok(Layout::Archive(file, files))
    }

    /// Opens a file by its name in the layout. Returns `None` if the layout lacks it.
    pub(super) fn open_file(&self, name: &str) -> Result<Option<Content>> {
        match self {
            Layout::Directory(directory) => {
                let is_plain = |part: &str| !matches!(part, "" | "." | "..");
                if !name.split('/').all(is_plain) {
                    return Err(Error::refused(format!(
                        "`{}` is not a file of the layout",
                        name.escape_debug()
                    )));
                }
                let path = directory.join(name);
                let file = match open_regular(&path) {
                    Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                    opened => opened.map_err(at("read", &path))?,
                };
                let size = file.metadata().map_err(at("read", &path))?.len();
                Ok(Some(Content { reader: Window { file, position: 0, left: size }, size }))
            }
            Layout::Archive(file, files) => {
                let Some((position, size)) = files.find(name) else { return Ok(None) };
                let file = file.try_clone().map_err(at("read", Path::new("the archive")))?;
                Ok(Some(Content { reader: Window { file, position, left: size }, size }))
            }
        }
    }

    /// Reads a file of limited size. Returns `None` if the layout lacks it.
    pub(super) fn read(&self, name: &str, limit: u64) -> Result<Option<Vec<u8>>> {
        let Some(content) = self.open_file(name)? else { return Ok(None) };
        if content.size > limit {
            return Err(Error::refused(format!("`{}` of the file is too large", name.escape_debug())));
        }
        let mut text = Vec::new();
        let mut reader = content.reader;
        reader.read_to_end(&mut text).map_err(at("read", Path::new(name)))?;
        Ok(Some(text))
    }

    /// Opens a blob, which must have the size that its descriptor says.
    pub(super) fn open_blob(&self, descriptor: &Descriptor) -> Result<Content> {
        let digest = &descriptor.digest;
        let content = self.open_file(&format!("blobs/sha256/{}", digest.digits()))?;
        let content = content.ok_or_else(|| Error::refused(format!("the file lacks its blob {digest}")))?;
        if content.size != descriptor.size {
            return Err(Error::refused(format!(
                "the blob {digest} has {} bytes, and the manifest says {}",
                content.size, descriptor.size
            )));
        }
        Ok(content)
    }

    /// Reads a blob of limited size.
    pub(super) fn read_blob(&self, descriptor: &Descriptor, limit: u64) -> Result<Vec<u8>> {
        let content = self.open_blob(descriptor)?;
        if content.size > limit {
            return Err(Error::refused(format!("the blob {} is too large", descriptor.digest)));
        }
        let mut text = Vec::new();
        let mut reader = content.reader;
        reader.read_to_end(&mut text).map_err(at("read", Path::new(descriptor.digest.as_str())))?;
        check_blob(&descriptor.digest, &text)?;
        Ok(text)
    }
}

/// Opens a regular file. A pipe or a device might block forever.
fn open_regular(path: &Path) -> io::Result<File> {
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let file = fs::OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    Ok(file)
}
