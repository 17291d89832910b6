//! Creates a layer from a directory, whose sandbox opens the files, and leaves out those that an earlier layer has.

use std::fs::{self, DirBuilder, File};
use std::io::{self, BufWriter, Write as _};
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use koze_guest::archive::{Entry, Handed, Mark};
use koze_guest::channel::Receiver;
use rustix::fs::{MemfdFlags, memfd_create};

use super::copies::{Batch, Copies, Failure, with_copies};
use super::files::Files;
use super::known::{self, Previous};
use super::{About, Indexed, Layer, Layers, layer_error};
use crate::errors::{convert_fault, gone_error, unexpected_answer};
use crate::host::layout::Own;
use crate::launch::USER;
use koze_core::archive::Contents;
use koze_core::error::{Code, Error, Result};

/// A layer that is not listed yet. Dropping it removes its files.
pub(crate) struct Draft {
    layers: Layers,
    layer: Layer,
    _lock: File,
    is_kept: bool,
}

impl Draft {
    /// Returns the name of the layer, by which a store lists it.
    pub(crate) fn name(&self) -> &str {
        self.layer.name()
    }

    /// Keeps the layer, which a store lists now. The next layer of the sandbox shares unchanged files with it.
    pub(crate) fn keep(&mut self, sandbox: &Path) {
        self.is_kept = true;
        // If this fails, the next layer shares no files with this one.
        let _ = known::record_layer(sandbox, &self.layer);
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if !self.is_kept {
            let _ = self.layers.remove(&self.layer);
        }
    }
}

/// The state that is prepared before the request to the sandbox.
pub(crate) struct Plan {
    draft: Draft,
    previous: Previous,
    /// The files that an earlier layer has, for the sandbox to leave out.
    pub(crate) known: File,
}

/// Creates an empty layer, and finds what it can share with the last one of the sandbox.
pub(crate) fn prepare_layer(layers: &Layers, sandbox: &Path, own: &Own) -> io::Result<Plan> {
    let (layer, lock) = layers.create()?;
    let draft = Draft { layers: layers.clone(), layer, _lock: lock, is_kept: false };
    let previous = known::find_previous(layers, sandbox, own);
    let memory = memfd_create("koze-known", MemfdFlags::CLOEXEC)?;
    let mut known = BufWriter::new(File::from(memory));
    for file in &previous.known {
        serde_json::to_writer(&mut known, file)?;
        known.write_all(b"\n")?;
    }
    let known = known.into_inner().map_err(|error| io::Error::from(error.error().kind()))?;
    Ok(Plan { draft, previous, known })
}

/// Creates the files of a layer from what the guest hands over.
pub(crate) fn fill_layer(
    plan: Plan,
    own: &Own,
    dir: &str,
    most: u64,
    socket: &OwnedFd,
    cancelled: &AtomicBool,
) -> Result<(Draft, Contents, u64)> {
    let Plan { draft, previous, .. } = plan;
    // The user inside all sandboxes, which each sandbox's user namespace maps to its own host user.
    let owner = rustix::process::geteuid().is_root().then_some(USER);
    let top = create_directories(&draft.layer, own, owner).map_err(layer_error)?;
    let previous = previous.layer.map(|layer| layer.files().join(&own.below));
    let mut files = Files::new(top, previous.as_deref(), owner).map_err(layer_error)?;
    let ((mut index, contents, mapped), bytes) =
        with_copies(most, not_copied, |copies| receive_entries(&mut files, copies, dir, socket, cancelled))?;
    for file in &mut index {
        let is_trusted = |mark: &Mark| mapped.as_ref().is_some_and(|mapped| !mapped.contains(&mark.inode()));
        file.mark = file.mark.filter(is_trusted);
    }
    let finish = || {
        files.finish()?;
        fs::write(draft.layer.directory.join("index"), serde_json::to_vec(&index)?)?;
        let about = About { own: own.path.into(), below: own.below.clone(), boot: super::boot_id()? };
        draft.layer.write("about", &about)
    };
    finish().map_err(layer_error)?;
    Ok((draft, contents, bytes))
}

/// The files of a directory, what it contains, and the inodes that were mapped meanwhile.
type Received = (Vec<Indexed>, Contents, Option<Vec<u64>>);

/// Receives and creates all entries.
fn receive_entries(
    files: &mut Files,
    copies: &Copies<'_>,
    dir: &str,
    socket: &OwnedFd,
    cancelled: &AtomicBool,
) -> Result<Received> {
    let (mut index, mut receiver) = (Vec::new(), Receiver::default());
    loop {
        if cancelled.load(Ordering::Acquire) {
            return Err(gone_error());
        }
        let came = receiver.receive::<Handed>(socket).map_err(|_| gone_error())?.ok_or_else(gone_error)?;
        match came.message {
            Handed::Entries(entries) => {
                let mut descriptors = came.descriptors.into_iter().map(File::from);
                let mut batch = Batch::new();
                for entry in entries {
                    create_entry(files, &mut batch, &mut index, entry, &mut descriptors, dir)?;
                }
                copies.add(batch).map_err(not_copied)?;
            }
            Handed::End { contents, mapped } => return Ok((index, contents, mapped)),
            Handed::Failed(fault) => return Err(convert_fault(fault)),
        }
    }
}

/// Creates an entry. Adds files to the index, and those to copy to the batch.
fn create_entry(
    files: &mut Files,
    batch: &mut Batch,
    index: &mut Vec<Indexed>,
    entry: Entry,
    descriptors: &mut impl Iterator<Item = File>,
    dir: &str,
) -> Result<()> {
    match entry {
        Entry::Directory { path, mode } => files.directory(path, mode).map_err(layer_error),
        Entry::Link { path, target } => files.link(&path, &target).map_err(layer_error),
        Entry::File { path, mode, size, mark, same } => {
            let copy = if same {
                files.same(&path, mode).map_err(removed_error)?
            } else {
                let from = descriptors.next().ok_or_else(unexpected_answer)?;
                Some(files.file(&path, mode, from, size).map_err(layer_error)?)
            };
            batch.extend(copy.map(|copy| (copy, format!("{dir}/{path}"))));
            index.push(Indexed { path, size, mark });
            Ok(())
        }
    }
}

/// Returns the error for a file that was not copied.
fn not_copied((error, path): Failure) -> Error {
    if error.kind() != io::ErrorKind::UnexpectedEof {
        return layer_error(error);
    }
    let message = format!("`{path}` was changed while it was archived: try again");
    Error::new(Code::Unavailable, message).with_source(error)
}

/// Returns the error for a file of an earlier layer that cannot be linked.
fn removed_error(error: io::Error) -> Error {
    if error.kind() != io::ErrorKind::NotFound {
        return layer_error(error);
    }
    Error::new(Code::Unavailable, "an earlier snapshot was removed in the meantime: try again")
        .with_source(error)
}

/// Creates the directories down to that of the snapshot, and opens it.
fn create_directories(layer: &Layer, own: &Own, owner: Option<u32>) -> io::Result<File> {
    let mut path = layer.files();
    let parts = own.below.split('/').filter(|part| !part.is_empty());
    let create = |path: &Path| {
        DirBuilder::new().mode(0o755).create(path)?;
        std::os::unix::fs::chown(path, owner, owner)
    };
    create(&path)?;
    for part in parts {
        path.push(part);
        create(&path)?;
    }
    File::open(path)
}
