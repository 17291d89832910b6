//! Hands the files of a directory over to the host, as descriptors. The host copies them, so their content does not pass through this process.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};

use koze_protocol::tar::Contents;
use rustix::fs::Stat;
use serde::{Deserialize, Serialize};

use super::changes::{Changes, Mark};
use super::walk::{Name, Sink, walk_directory};
use crate::channel::{self, DESCRIPTORS};
use crate::message::{Fault, Place};
use crate::place::fault;
use crate::stream::Stop;

/// The maximum number of entries in a message, which keeps it in one packet unless names are long.
const ENTRIES: usize = 100;

/// A message to the host.
#[derive(Debug, Serialize, Deserialize)]
pub enum Handed {
    /// Entries in the order of a walk. A readable descriptor is passed for each file that has changed.
    Entries(Vec<Entry>),
    /// The end: everything was handed over.
    End {
        /// What the directory contains.
        contents: Contents,
        /// The inodes that were mapped meanwhile, whose marks do not count. `None` if a program does not show its mappings.
        mapped: Option<Vec<u64>>,
    },
    /// The end, because of an error.
    Failed(Fault),
}

/// An entry of the directory, by its path below it. The path of the directory itself is empty.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Entry {
    /// A directory.
    Directory {
        /// Its path.
        path: String,
        /// Its permission bits.
        mode: u32,
    },
    /// A symbolic link.
    Link {
        /// Its path.
        path: String,
        /// Its target.
        target: String,
    },
    /// A file.
    File {
        /// Its path.
        path: String,
        /// Its permission bits.
        mode: u32,
        /// Its size in bytes.
        size: u64,
        /// Its mark, unless the file may change without a new mark.
        mark: Option<Mark>,
        /// Whether it is unchanged, so that no descriptor is passed.
        same: bool,
    },
}

/// Hands over a directory. `known` lists the files that the host has: one [`Known`](super::Known) per line, as JSON.
pub(crate) fn hand_over(place: &Place, known: File, to: OwnedFd) -> Result<(), Fault> {
    let changes = Changes::new(known).map_err(|error| fault(&error, &place.path))?;
    send_files(place, changes, to)
}

pub(super) fn send_files(place: &Place, changes: Changes, to: OwnedFd) -> Result<(), Fault> {
    let mut batch = Batch { to, changes, entries: Vec::new(), files: Vec::new() };
    let handed = walk_directory(place, &mut batch).and_then(|contents| {
        batch.send()?;
        Ok(contents)
    });
    let (end, result) = match handed {
        Ok(contents) => (Handed::End { contents, mapped: batch.changes.mapped() }, Ok(())),
        Err(Stop::ReaderGone) => return Ok(()),
        Err(Stop::Fault(fault)) => (Handed::Failed(fault.clone()), Err(fault)),
    };
    let _ = channel::send(&batch.to, 0, &end, &[]);
    result
}

/// The entries of the next message.
struct Batch {
    to: OwnedFd,
    changes: Changes,
    entries: Vec<Entry>,
    files: Vec<File>,
}

impl Batch {
    fn add(&mut self, entry: Entry, file: Option<File>) -> Result<(), Stop> {
        self.entries.push(entry);
        self.files.extend(file);
        // A message that is too long for a packet needs one more descriptor.
        if self.entries.len() < ENTRIES && self.files.len() < DESCRIPTORS - 1 { Ok(()) } else { self.send() }
    }

    fn send(&mut self) -> Result<(), Stop> {
        let entries = Handed::Entries(std::mem::take(&mut self.entries));
        let files: Vec<_> = self.files.iter().map(AsFd::as_fd).collect();
        let sent = channel::send(&self.to, 0, &entries, &files);
        self.files.clear();
        sent.map_err(|_: io::Error| Stop::ReaderGone)
    }
}

impl Sink for Batch {
    fn directory(&mut self, name: &Name, stat: &Stat) -> Result<(), Stop> {
        self.add(Entry::Directory { path: name.path.clone(), mode: stat.st_mode & 0o7777 }, None)
    }

    fn link(&mut self, name: &Name, target: String, _: &Stat) -> Result<(), Stop> {
        self.add(Entry::Link { path: name.path.clone(), target }, None)
    }

    fn file(&mut self, name: &Name, file: File, stat: &Stat) -> Result<u64, Stop> {
        let (same, mark) = self.changes.look_at(&name.path, stat);
        let size = u64::try_from(stat.st_size).unwrap_or_default();
        let entry = Entry::File { path: name.path.clone(), mode: stat.st_mode & 0o7777, size, mark, same };
        self.add(entry, (!same).then_some(file))?;
        Ok(size)
    }
}
