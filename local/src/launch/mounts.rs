//! Builds the file system of a sandbox: a small root of its own, with a few directories of the host.

use std::ffi::{CStr, CString, OsStr};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::CWD;
use rustix::mount::{
    MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags, mount, mount_change,
    move_mount, open_tree, unmount,
};

use super::overlay::{self, Overlay, Sources};
use super::spec::{Bind, BindKind, LeftOut, Spec};
use super::{sys, targets};
use crate::weakness::Weakness;

/// The mount point of the new root: a directory that every Linux has, in a private mount namespace.
const SCRATCH: &str = "/usr";
/// The directories of the root that koze fills, and that become read-only, also where the root of an image stays writable.
const OWN_DIRECTORIES: [&str; 2] = ["dev", ROOM];
/// The options of the file systems in memory that hold the entries of a root.
const ROOT_OPTIONS: &CStr = c"size=1m,nr_inodes=1k,mode=0755";
/// koze's own directory in a sandbox.
pub(super) const ROOM: &str = "var/lib/koze";
/// An empty directory there.
pub(super) const EMPTY: &str = "/var/lib/koze/empty";
/// The directories that every root has.
const DIRECTORIES: [&str; 8] =
    ["proc", "dev/pts", "dev/shm", "etc", "run", "home", "sys/fs/cgroup", "var/lib/koze/empty"];

/// Opens the host's entries. This happens while the process is still the host's user, because a parent directory may be
/// inaccessible to others.
pub(super) fn open_sources(spec: &Spec, weak: &LeftOut) -> io::Result<Vec<OwnedFd>> {
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC)?;
    spec.binds.iter().map(|bind| open_source(bind, weak)).collect()
}

fn open_source(bind: &Bind, weak: &LeftOut) -> io::Result<OwnedFd> {
    let flags =
        OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_RECURSIVE;
    let tree = open_tree(CWD, OsStr::from_bytes(&bind.source), flags)?;
    let read_only = if weak.has(&Weakness::Writable) { 0 } else { sys::READ_ONLY };
    let attributes = match bind.kind {
        BindKind::Directory | BindKind::File | BindKind::Cover => read_only | sys::NO_SUID | sys::NO_DEV,
        BindKind::Device => read_only | sys::NO_SUID | sys::NO_EXEC,
        BindKind::Writable => sys::NO_SUID | sys::NO_DEV,
    };
    sys::mount_setattr(tree.as_fd(), attributes, true)?;
    Ok(tree)
}

/// Mounts an empty root, and enters it. The host's root is still reachable afterward.
pub(super) fn enter_root() -> io::Result<()> {
    let shut = MountFlags::NOSUID | MountFlags::NODEV;
    mount("tmpfs", SCRATCH, "tmpfs", shut, ROOT_OPTIONS)?;
    Ok(rustix::process::chdir(SCRATCH)?)
}

/// Mounts the root of an image on top of the empty root, and enters it.
pub(super) fn enter_image(image: &Overlay, sources: &Sources) -> io::Result<()> {
    const ROOT: &str = "root";
    overlay::attach_overlay_at(image, sources, ROOT)?;
    rustix::process::chdir(ROOT)?;
    let root = std::fs::File::open(".")?;
    for path in OWN_DIRECTORIES {
        rustix::process::fchdir(targets::create_directory(Path::new(path))?)?;
        mount("tmpfs", ".", "tmpfs", MountFlags::NOSUID | MountFlags::NODEV, ROOT_OPTIONS)?;
        rustix::process::fchdir(&root)?;
    }
    Ok(())
}

/// Fills the root, which is the current directory.
pub(super) fn build_root(spec: &Spec, sources: Vec<OwnedFd>) -> io::Result<()> {
    for directory in DIRECTORIES {
        targets::create_directory(Path::new(directory))?;
    }
    for (bind, tree) in spec.binds.iter().zip(sources) {
        let target = Path::new(&bind.target);
        match bind.kind {
            BindKind::File | BindKind::Device => targets::create_file(target, "")?,
            BindKind::Cover if !targets::is_file(target) => continue,
            BindKind::Cover => {}
            BindKind::Directory | BindKind::Writable => drop(targets::create_directory(target)?),
        }
        move_mount(&tree, "", CWD, target, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)?;
    }
    for (path, text) in &spec.texts {
        targets::create_file(Path::new(path), text)?;
    }
    for (path, target) in &spec.links {
        targets::create_link(Path::new(path), target)?;
    }
    let shared = CString::new(format!("size={}m,nr_inodes=4k,mode=1777", spec.shared_mib))?;
    mount("tmpfs", "dev/shm", "tmpfs", MountFlags::NOSUID | MountFlags::NODEV, shared.as_c_str())?;
    let terminals = MountFlags::NOSUID | MountFlags::NOEXEC;
    // The number of terminals is limited for the whole machine (`kernel.pty.max`).
    Ok(mount("devpts", "dev/pts", "devpts", terminals, c"newinstance,ptmxmode=0666,mode=0620,max=256")?)
}

/// Builds an empty root and enters it, as [`root`] does.
pub(super) fn empty_root() -> io::Result<()> {
    let shut = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    mount("tmpfs", SCRATCH, "tmpfs", shut, c"size=4k,nr_inodes=1,mode=0555")?;
    Ok(rustix::process::chdir(SCRATCH)?)
}

/// Mounts `/proc` for this PID namespace. The kernel denies it unless the host's own is fully visible.
pub(super) fn mount_proc() -> io::Result<()> {
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    Ok(mount("proc", "proc", "proc", flags, None)?)
}

/// Detaches the host's file system, and locks down the new root.
pub(super) fn pivot_root(spec: &Spec) -> io::Result<()> {
    rustix::process::pivot_root(".", ".")?;
    unmount(".", UnmountFlags::DETACH)?;
    rustix::process::chdir("/")?;
    let sealed = if spec.image.is_some() { &OWN_DIRECTORIES[..] } else { &["."] };
    for path in sealed {
        let directory = std::fs::File::open(path)?;
        sys::mount_setattr(directory.as_fd(), sys::READ_ONLY | sys::NO_SUID | sys::NO_DEV, false)?;
    }
    Ok(())
}
