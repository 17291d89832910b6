//! Finds the files that a sandbox has not changed since its last layer.
//!
//! For a file in the sandbox's own directory, its [`Mark`](koze_guest::archive::Mark) shows whether it has changed. A file of the layer below is
//! unchanged as long as the own directory contains neither a file of that name nor a record of its removal. Its mark is not used, because
//! several sandboxes share the layer.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use koze_guest::archive::Known;
use rustix::fs::{CWD, Dir, FileType, Mode, OFlags, ResolveFlags};

use super::{Base, Layer, Layers};
use crate::host::layout::Own;

/// The file in a sandbox's directory that lists the layers that were taken of it: one name per line, the newest first.
const RECORD: &str = "layers";
/// The maximum number of layers in it. More than one, because the newest may have been removed.
const MAX_RECORDED: usize = 20;
/// The maximum depth of directories that are compared. Deeper trees count as changed.
const MAX_DEPTH: usize = 400;

/// The layer that the next one can share files with, and the files that it may share.
#[derive(Debug, Default)]
pub(super) struct Previous {
    pub(super) layer: Option<Layer>,
    pub(super) known: Vec<Known>,
}

/// Records a layer that was taken of a sandbox.
pub(super) fn record_layer(sandbox: &Path, layer: &Layer) -> io::Result<()> {
    let before = fs::read_to_string(sandbox.join(RECORD)).unwrap_or_default();
    let names: Vec<&str> = [layer.name()].into_iter().chain(before.lines()).take(MAX_RECORDED).collect();
    super::write_atomically(&sandbox.join(RECORD), names.join("\n").as_bytes())
}

/// Finds what a directory of a sandbox shares with earlier layers. A file that cannot be read counts as changed.
pub(super) fn find_previous(layers: &Layers, sandbox: &Path, own: &Own) -> Previous {
    let is_of = |layer: &Layer| layer.checked().is_ok_and(|about| about.is_ok_and(|about| about.is_of(own)));
    let taken = fs::read_to_string(sandbox.join(RECORD)).unwrap_or_default();
    let last = taken.lines().filter_map(|name| layers.find(name)).find(is_of);
    let base = Base::of(sandbox).ok().flatten().filter(|base| base.own == own.path);
    let base = base.and_then(|base| layers.find(&base.layer)).filter(is_of);
    let below = base.as_ref().and_then(|base| base.index().ok()).unwrap_or_default();
    // If it cannot be read, nothing is shared.
    let changed = base.as_ref().and_then(|_| changed_paths(sandbox, own).ok());
    let is_shared = |path: &&str| changed.as_ref().is_some_and(|changed| !changed.contains(*path));
    let shared: HashSet<&str> = below.iter().map(|file| file.path.as_str()).filter(is_shared).collect();
    // Without a layer of its own, the index is that of another sandbox, whose marks mean nothing here.
    let is_own = last.is_some();
    let index = match &last {
        Some(last) => last.index().unwrap_or_default(),
        None => below.clone(),
    };
    let Some(layer) = last.or(base) else { return Previous::default() };
    let known = index.into_iter().filter_map(|file| {
        if shared.contains(file.path.as_str()) {
            return Some(Known { path: file.path, mark: None });
        }
        let mark = file.mark.filter(|_| is_own)?;
        Some(Known { path: file.path, mark: Some(mark) })
    });
    Previous { known: known.collect(), layer: Some(layer) }
}

/// Returns what a sandbox on top of a layer has changed: everything in its own directory except directories.
fn changed_paths(sandbox: &Path, own: &Own) -> io::Result<HashSet<String>> {
    let mut changed = HashSet::new();
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let top = rustix::fs::openat(CWD, sandbox.join(own.path), flags, Mode::empty())?;
    let below = if own.below.is_empty() { "." } else { &own.below };
    // Fails if a program has put a symbolic link into the path, because the sandbox then sees another directory.
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
    match rustix::fs::openat2(&top, below, flags, Mode::empty(), resolve) {
        Ok(top) => collect_names(&top, "", &mut changed, 0)?,
        // The sandbox has changed nothing there.
        Err(rustix::io::Errno::NOENT) => {}
        Err(error) => return Err(error.into()),
    }
    Ok(changed)
}

/// Collects everything below a directory except directories. Follows no links.
fn collect_names(
    directory: &OwnedFd,
    above: &str,
    names: &mut HashSet<String>,
    depth: usize,
) -> io::Result<()> {
    if depth > MAX_DEPTH {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        // A layer contains only names that are UTF-8.
        let Ok(text) = name.to_str() else { continue };
        if matches!(text, "." | "..") {
            continue;
        }
        let path = if above.is_empty() { text.to_owned() } else { format!("{above}/{text}") };
        if entry.file_type() == FileType::Directory {
            collect_names(
                &rustix::fs::openat(directory, name, flags, Mode::empty())?,
                &path,
                names,
                depth + 1,
            )?;
        } else {
            names.insert(path);
        }
    }
    Ok(())
}
