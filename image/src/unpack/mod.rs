//! Unpacks layers, and verifies their digests on the way.

mod names;
mod reader;
mod root;

use std::cell::Cell;
use std::io::{self, BufReader, Read};
use std::path::Path;
use std::rc::Rc;

use tar::{Archive, Entry, EntryType};

use crate::digest::Digest;
use crate::errors::{Error, Result};
use crate::store::LayerRecord;

use self::names::Name;
use self::reader::{Hashed, decompress};
use self::root::Root;

pub(crate) use self::reader::{Bounded, Budget};

/// How much the headers between two entries may take, in bytes. `tar` keeps long names in memory.
const HEADERS: u64 = 1 << 20;
/// What a directory counts, and the unit of a file's size.
const BLOCK: u64 = 4096;

/// Unpacks a layer into an empty directory. The blob's digest is verified if it is known; that of the archive in it always.
pub(crate) fn unpack(
    blob: impl Read,
    digest: Option<&Digest>,
    diff_id: &Digest,
    directory: &Path,
    budget: &Budget,
) -> Result<LayerRecord> {
    let mut blob = Hashed::new(blob);
    let mut archive = Hashed::new(budget.bound(decompress(BufReader::with_capacity(128 << 10, &mut blob))?));
    let record = unpack_archive(&mut archive, diff_id, directory, budget);
    // An archive that ends in the middle is damaged, which is the better error than that of its digest.
    let record = record.and_then(|record| {
        io::copy(&mut archive, &mut io::sink()).map_err(|error| read_failed(&error))?;
        check_digest("the unpacked layer", diff_id, &archive.finish())?;
        Ok(record)
    });
    let record = record?;
    io::copy(&mut blob, &mut io::sink()).map_err(|error| read_failed(&error))?;
    if let Some(digest) = digest {
        check_digest("the layer", digest, &blob.finish())?;
    }
    Ok(record)
}

fn check_digest(what: &str, expected: &Digest, computed: &Digest) -> Result<()> {
    if expected == computed {
        return Ok(());
    }
    Err(Error::refused(format!("{what} is damaged: its digest is {computed}, not {expected}")))
}

/// Creates the files of an archive below a directory.
fn unpack_archive(
    archive: impl Read,
    diff_id: &Digest,
    directory: &Path,
    budget: &Budget,
) -> Result<LayerRecord> {
    let mut root = Root::open(directory)?;
    let mut record = LayerRecord { diff_id: diff_id.clone(), bytes: 0, entries: 0, opaque: false };
    let allowance = Rc::new(Cell::new(HEADERS));
    let mut archive = Archive::new(Bounded { inner: archive, allowance: Rc::clone(&allowance) });
    let mut entries = archive.entries().map_err(|error| read_failed(&error))?;
    loop {
        allowance.set(HEADERS);
        let Some(entry) = entries.next() else { break };
        let mut entry = entry.map_err(|error| read_failed(&error))?;
        allowance.set(u64::MAX);
        budget.take_entry()?;
        record.bytes += unpack_entry(&mut entry, &mut root, budget)?;
        // The reader would skip the rest together with the next headers.
        io::copy(&mut entry, &mut io::sink()).map_err(|error| read_failed(&error))?;
    }
    record.opaque = root.is_opaque();
    record.entries = root.finish()?;
    Ok(record)
}

/// Creates one entry. Returns what it takes on the disk, in bytes.
fn unpack_entry(entry: &mut Entry<impl Read>, root: &mut Root, budget: &Budget) -> Result<u64> {
    let kind = entry.header().entry_type();
    if matches!(kind, EntryType::XGlobalHeader) {
        return Ok(0);
    }
    let path = entry.path_bytes().into_owned();
    refuse_pax_sparse(entry, &path)?;
    let name = Name::parse(&path)?;
    let header = entry.header();
    let failed = |error: io::Error| names::failed(&path, error);
    // Set-user-ID and set-group-ID bits would give away the rights of the store's owner.
    let mode = header.mode().map_err(failed)? & 0o1777;
    let mtime = header.mtime().map_err(failed)?;
    if let Name::Whiteout { parent, name } = name {
        root.hide(parent, name).map_err(failed)?;
        return Ok(0);
    }
    let (parent, name) = match name {
        Name::Opaque { parent } => {
            root.make_opaque(parent).map_err(failed)?;
            return Ok(0);
        }
        // The layer's directory itself keeps its mode, because an overlay uses that of its uppermost directory.
        Name::Root | Name::Metadata | Name::Whiteout { .. } => return Ok(0),
        Name::Entry { parent, name } => (parent, name),
    };
    match kind {
        EntryType::Directory => {
            root.create_directory(parent, name, mode, mtime).map_err(failed)?;
            Ok(BLOCK)
        }
        EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse => {
            let size = entry.size();
            if kind == EntryType::GNUSparse {
                // The archive does not contain the holes, so they are not counted as they are read.
                budget.take_bytes(size).map_err(|error| read_failed(&error))?;
            }
            root.create_file(parent, name, mode, mtime, entry).map_err(failed)?;
            Ok(size.div_ceil(BLOCK) * BLOCK)
        }
        EntryType::Symlink => {
            let target = entry.link_name_bytes().unwrap_or_default();
            root.create_link(parent, name, &target, mtime).map_err(failed)?;
            Ok(0)
        }
        EntryType::Link => {
            let target = entry.link_name_bytes().unwrap_or_default();
            let Name::Entry { parent: from, name: target } = Name::parse(&target)? else {
                return Err(names::failed(&path, io::Error::other("it is a hard link to no file")));
            };
            root.create_hard_link(parent, name, from, target).map_err(failed)?;
            Ok(0)
        }
        EntryType::Fifo => {
            root.create_fifo(parent, name, mode, mtime).map_err(failed)?;
            Ok(0)
        }
        // Sandboxes have their own devices.
        EntryType::Char | EntryType::Block => Ok(0),
        _ => Err(names::failed(&path, io::Error::other("koze does not know this type of entry"))),
    }
}

/// Refuses sparse files in the format of PAX, which `tar` would unpack as if the map of their holes was their content.
fn refuse_pax_sparse(entry: &mut Entry<impl Read>, path: &[u8]) -> Result<()> {
    let Some(extensions) = entry.pax_extensions().map_err(|error| names::failed(path, error))? else {
        return Ok(());
    };
    let is_sparse = |key: &[u8]| key.starts_with(b"GNU.sparse.");
    if extensions.flatten().any(|extension| is_sparse(extension.key_bytes())) {
        let text = "it is a sparse file in the format of PAX, which koze does not read";
        return Err(names::failed(path, io::Error::other(text)));
    }
    Ok(())
}

/// Converts an error of reading an archive. One of ours says itself what was wrong.
fn read_failed(error: &io::Error) -> Error {
    match error.get_ref().and_then(|inner| inner.downcast_ref::<Error>()) {
        Some(ours) => Error::refused(ours.to_string()),
        None => Error::refused(format!("the layer cannot be read: {error}")),
    }
}
