//! Creates the files of an archive in a sandbox. The archive is not trusted: nothing is created outside of the directory.

use futures_util::stream::TryStreamExt as _;
use koze_protocol::tar::{Entry, Part, Reader, What};

use super::{Bytes, Contents, Names, damaged_error};
use crate::error::Result;
use crate::sandbox::{Place, Sandbox};
use crate::together::try_join_all;
use crate::transfer::witness::{Witness, lost_if_missing};

/// Files up to this size are written at the same time, in bytes.
const SMALL: u64 = 128 << 10;
/// How many.
const AT_ONCE: usize = 16;
/// How much of a large file is collected before it is written.
const PIECE: usize = 1 << 20;

/// Creates the files of an archive below a directory by the other operations. Returns what it contained.
///
/// # Errors
/// The errors of the archive and of the sandbox. Some of the files may be left.
pub async fn unpack<S: Sandbox>(sandbox: &S, dir: &str, mut tar: Bytes<'_>) -> Result<Contents> {
    let mut unpacker = Unpacker::new(sandbox.clone(), dir.to_owned());
    while let Some(bytes) = tar.try_next().await? {
        unpacker.add_bytes(&bytes).await?;
    }
    unpacker.finish().await
}

/// Creates the entries of an archive below a directory.
struct Unpacker<S> {
    sandbox: S,
    dir: String,
    reader: Reader,
    names: Names,
    /// The file whose content arrives: its path, mode, size and content so far.
    file: Option<File>,
    /// The small files that are complete.
    small: Vec<File>,
    /// Modes of directories are set last, because a directory may be read-only.
    modes: Vec<(String, u32)>,
    contents: Contents,
    /// Created with the first entry.
    witness: Option<Witness>,
}

struct File {
    path: String,
    mode: u32,
    /// How many bytes have not arrived.
    left: u64,
    collected: Vec<u8>,
    /// How many bytes were written.
    written: u64,
}

impl<S: Sandbox> Unpacker<S> {
    fn new(sandbox: S, dir: String) -> Self {
        Unpacker {
            sandbox,
            dir,
            reader: Reader::default(),
            names: Names::default(),
            file: None,
            small: Vec::new(),
            modes: Vec::new(),
            contents: Contents::default(),
            witness: None,
        }
    }

    /// Adds bytes of the archive.
    async fn add_bytes(&mut self, bytes: &[u8]) -> Result<()> {
        // What follows the end is dropped.
        if self.reader.finish().is_ok() {
            return Ok(());
        }
        self.reader.add(bytes);
        while let Some(part) = self.reader.part().map_err(damaged_error)? {
            match part {
                Part::Entry(entry) => self.create_entry(entry).await?,
                Part::Content(content) => self.add_content(content).await?,
            }
        }
        Ok(())
    }

    /// Completes the directory. Returns what it has.
    async fn finish(mut self) -> Result<Contents> {
        self.reader.finish().map_err(damaged_error)?;
        self.write_small().await?;
        if let Some(witness) = self.witness.take() {
            witness.remove(&self.sandbox).await?;
        }
        for (path, mode) in self.modes.iter().rev() {
            self.set_mode(path, *mode).await?;
        }
        Ok(self.contents)
    }

    fn place_at<'a>(&'a self, path: &'a str) -> Place<'a> {
        Place { root: &self.dir, path }
    }

    async fn create_entry(&mut self, entry: Entry) -> Result<()> {
        self.names.check_entry(&entry)?;
        let Entry { name, what, mode, .. } = entry;
        let path = if name.is_empty() { self.dir.clone() } else { format!("{}/{name}", self.dir) };
        if !name.is_empty() {
            self.contents.entries += 1;
        }
        if self.contents.entries == 1 && self.witness.is_none() {
            self.witness = Some(Witness::create_in(&self.sandbox, self.place_at(&self.dir)).await?);
        }
        match what {
            What::Directory => {
                if !name.is_empty() {
                    self.sandbox.make_dir(self.place_at(&path)).await?;
                }
                self.modes.push((path, mode));
            }
            What::Link(target) => {
                // A file of the same name would be written through it.
                self.write_small().await?;
                self.sandbox.make_link(self.place_at(&path), &target).await?;
            }
            What::File(size) => {
                self.contents.bytes = self.contents.bytes.saturating_add(size);
                let file = File { path, mode, left: size, collected: Vec::new(), written: 0 };
                if size == 0 {
                    self.queue_small(file).await?;
                } else {
                    self.file = Some(file);
                }
            }
        }
        Ok(())
    }

    async fn add_content(&mut self, content: Vec<u8>) -> Result<()> {
        let Some(mut file) = self.file.take() else { return Ok(()) };
        file.left -= content.len() as u64;
        file.collected.extend(content);
        if file.left == 0 && file.written == 0 && file.collected.len() as u64 <= SMALL {
            return self.queue_small(file).await;
        }
        if file.left == 0 || file.collected.len() >= PIECE {
            self.write_collected(&mut file).await?;
        }
        if file.left > 0 {
            self.file = Some(file);
            return Ok(());
        }
        self.set_mode(&file.path, file.mode).await
    }

    async fn set_mode(&self, path: &str, mode: u32) -> Result<()> {
        let set = self.sandbox.set_mode(self.place_at(path), mode).await;
        set.map_err(|error| lost_if_missing(error, path))
    }

    async fn write_collected(&self, file: &mut File) -> Result<()> {
        let collected = std::mem::take(&mut file.collected);
        file.written = self.sandbox.write_at(self.place_at(&file.path), file.written, collected).await?;
        Ok(())
    }

    async fn queue_small(&mut self, file: File) -> Result<()> {
        self.small.push(file);
        if self.small.len() < AT_ONCE { Ok(()) } else { self.write_small().await }
    }

    async fn write_small(&mut self) -> Result<()> {
        let small = std::mem::take(&mut self.small);
        let written = small.into_iter().map(async |mut file| {
            self.write_collected(&mut file).await?;
            self.set_mode(&file.path, file.mode).await
        });
        try_join_all(written).await.map(drop)
    }
}
