//! Mounts a directory on top of a layer with overlayfs: changes go to the sandbox's own directory.
//!
//! Several sandboxes share the layer, so its files belong to no sandbox's user. If the sandbox has its own user, the host maps the owner of
//! the files to that user. Only the host may do that.

use std::ffi::{CString, OsStr};
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::CWD;
use rustix::mount::{
    MountFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags, mount, move_mount, open_tree, unmount,
};
use serde::{Deserialize, Serialize};

use super::sys;

/// Where the layer and the sandbox's own directory are mounted until the overlay exists.
const LOWER: &str = ".lower";
const OWN: &str = ".own";

/// A directory on top of a layer.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Overlay {
    /// Its path in the sandbox, without the leading slash.
    pub(crate) target: String,
    /// The layer's directory on the host.
    pub(crate) lower: Vec<u8>,
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

/// Opens the layer on the host, and maps user and group 1000 to those of a process's user namespace.
pub(super) fn open_mapped(overlay: &Overlay, process: u32) -> io::Result<OwnedFd> {
    let namespace = File::open(format!("/proc/{process}/ns/user"))?;
    let lower = open_path(&overlay.lower, sys::READ_ONLY)?;
    sys::map_owners(lower.as_fd(), namespace.as_fd())?;
    Ok(lower)
}

/// Opens the sources, while the process still runs as the host's user. `lower` is the layer, if the host has opened it already.
pub(super) fn open_sources(overlay: &Overlay, lower: Option<OwnedFd>) -> io::Result<Sources> {
    let lower = lower.map_or_else(|| open_path(&overlay.lower, sys::READ_ONLY), Ok)?;
    Ok(Sources { lower, own: open_path(&overlay.own, 0)? })
}

/// Mounts the directory below the new root, which is the current directory.
pub(super) fn attach_overlay(overlay: &Overlay, sources: &Sources) -> io::Result<()> {
    let Overlay { upper, work, target, .. } = overlay;
    for (tree, at) in [(&sources.lower, LOWER), (&sources.own, OWN)] {
        fs::create_dir(at)?;
        move_mount(tree, "", CWD, at, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)?;
    }
    fs::create_dir_all(Path::new(target))?;
    let options =
        CString::new(format!("lowerdir={LOWER},upperdir={OWN}/{upper},workdir={OWN}/{work},userxattr"))?;
    mount("overlay", &**target, "overlay", MountFlags::NOSUID | MountFlags::NODEV, options.as_c_str())?;
    for at in [LOWER, OWN] {
        unmount(at, UnmountFlags::DETACH)?;
        fs::remove_dir(at)?;
    }
    Ok(())
}

fn open_path(path: &[u8], attributes: u64) -> io::Result<OwnedFd> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    let tree = open_tree(CWD, OsStr::from_bytes(path), flags)?;
    sys::mount_setattr(tree.as_fd(), attributes | sys::NO_SUID | sys::NO_DEV, false)?;
    Ok(tree)
}
