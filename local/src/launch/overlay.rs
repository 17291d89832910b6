//! Mounts a directory on top of layers with overlayfs: changes go to the sandbox's own directory. Such a directory is the root of a sandbox
//! that has an image, or a part of it that begins with the content of a snapshot.
//!
//! Several sandboxes share the layers, so their files belong to no sandbox's user. If the sandbox has its own user, the host maps the owner
//! of the files to that user. Only the host may do that.

use std::ffi::{CString, OsStr};
use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::CWD;
use rustix::mount::{
    MountFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags, mount, move_mount, open_tree, unmount,
};
use serde::{Deserialize, Serialize};

use super::{sys, targets};

/// Where the layers and the sandbox's own directory are mounted until the overlay exists. The names are short, because all options of
/// an overlay together have at most 4 KiB.
const LOWER: &str = "var/lib/koze/l";
const OWN: &str = "var/lib/koze/o";

/// A directory on top of layers.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Overlay {
    /// Its path in the sandbox, without the leading slash. Not used for the root.
    pub(crate) target: String,
    /// The directory of the layers on the host.
    pub(crate) lower: Vec<u8>,
    /// The names of the layers in that directory, lowest first. If there are none, the directory is the layer itself.
    pub(crate) layers: Vec<String>,
    /// The user and group that own the files of the layers, if that is not the user of this program.
    pub(crate) layers_owner: u32,
    /// The directory on the host that contains `upper` and `work`.
    pub(crate) own: Vec<u8>,
    /// The directory with the changes, and overlayfs's work directory.
    pub(crate) upper: String,
    pub(crate) work: String,
}

/// The opened sources of an overlay.
pub(super) struct Sources {
    lower: OwnedFd,
    own: OwnedFd,
}

/// Opens the layers on the host, with the owners that their files have in a user namespace.
pub(super) fn open_mapped(overlay: &Overlay, namespace: BorrowedFd<'_>) -> io::Result<OwnedFd> {
    let lower = open_path(&overlay.lower, sys::READ_ONLY)?;
    sys::map_owners(lower.as_fd(), namespace)?;
    Ok(lower)
}

/// Opens the sources, while the process still runs as the host's user. `lower` are the layers, if the host has opened them already.
pub(super) fn open_sources(overlay: &Overlay, lower: Option<OwnedFd>) -> io::Result<Sources> {
    let lower = lower.map_or_else(|| open_path(&overlay.lower, sys::READ_ONLY), Ok)?;
    Ok(Sources { lower, own: open_path(&overlay.own, 0)? })
}

/// Mounts the directory below the new root, which is the current directory.
pub(super) fn attach_overlay(overlay: &Overlay, sources: &Sources) -> io::Result<()> {
    attach_overlay_at(overlay, sources, &overlay.target)
}

/// Mounts it at a path below the current directory.
pub(super) fn attach_overlay_at(overlay: &Overlay, sources: &Sources, target: &str) -> io::Result<()> {
    for (tree, at) in [(&sources.lower, LOWER), (&sources.own, OWN)] {
        targets::create_directory(Path::new(at))?;
        move_mount(tree, "", CWD, at, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)?;
    }
    targets::create_directory(Path::new(target))?;
    let options = CString::new(mount_options(overlay))?;
    mount("overlay", target, "overlay", MountFlags::NOSUID | MountFlags::NODEV, options.as_c_str())?;
    for at in [LOWER, OWN] {
        unmount(at, UnmountFlags::DETACH)?;
        fs::remove_dir(at)?;
    }
    Ok(())
}

/// Without `volatile`, the end of a sandbox would write everything on the disk of the upper directory back. The work directory is new at
/// each start, so nothing is left of a sandbox that was killed.
fn mount_options(Overlay { layers, upper, work, .. }: &Overlay) -> String {
    let mut lower: Vec<_> = layers.iter().rev().map(|layer| format!("{LOWER}/{layer}")).collect();
    if lower.is_empty() {
        lower.push(LOWER.to_owned());
    }
    format!("lowerdir={},upperdir={OWN}/{upper},workdir={OWN}/{work},userxattr,volatile", lower.join(":"))
}

fn open_path(path: &[u8], attributes: u64) -> io::Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    let tree = open_tree(CWD, OsStr::from_bytes(path), flags)?;
    sys::mount_setattr(tree.as_fd(), attributes | sys::NO_SUID | sys::NO_DEV, false)?;
    Ok(tree)
}
