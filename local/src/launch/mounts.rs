//! Builds the file system of a sandbox: a small root of its own, with a few directories of the host.

use std::ffi::{CString, OsStr};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::CWD;
use rustix::mount::{
    MountFlags, MountPropagationFlags, MoveMountFlags, OpenTreeFlags, UnmountFlags, mount, mount_change,
    move_mount, open_tree, unmount,
};

use super::spec::{Bind, BindKind, LeftOut, Spec};
use super::sys;
use crate::weakness::Weakness;

/// The mount point of the new root: a directory that every Linux has, in a private mount namespace.
const SCRATCH: &str = "/usr";

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
        BindKind::Directory | BindKind::File => read_only | sys::NO_SUID | sys::NO_DEV,
        BindKind::Device => read_only | sys::NO_SUID | sys::NO_EXEC,
        BindKind::Writable => sys::NO_SUID | sys::NO_DEV,
    };
    sys::mount_setattr(tree.as_fd(), attributes, true)?;
    Ok(tree)
}

/// Builds the root and enters it. The host's root is still reachable afterward.
pub(super) fn build_root(spec: &Spec, sources: Vec<OwnedFd>) -> io::Result<()> {
    let shut = MountFlags::NOSUID | MountFlags::NODEV;
    mount("tmpfs", SCRATCH, "tmpfs", shut, c"size=1m,nr_inodes=1k,mode=0755")?;
    rustix::process::chdir(SCRATCH)?;
    for directory in ["proc", "dev/pts", "dev/shm", "etc", "run", "var", "home", "sys/fs/cgroup"] {
        std::fs::create_dir_all(directory)?;
    }
    for (bind, tree) in spec.binds.iter().zip(sources) {
        let target = Path::new(&bind.target);
        if matches!(bind.kind, BindKind::File | BindKind::Device) {
            below_parents(target, || std::fs::File::create(target))?;
        } else {
            std::fs::create_dir_all(target)?;
        }
        move_mount(&tree, "", CWD, target, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)?;
    }
    for (path, text) in &spec.texts {
        below_parents(Path::new(path), || std::fs::write(path, text))?;
    }
    for (path, target) in &spec.links {
        below_parents(Path::new(path), || std::os::unix::fs::symlink(target, path))?;
    }
    let shared = CString::new(format!("size={}m,nr_inodes=4k,mode=1777", spec.shared_mib))?;
    mount("tmpfs", "dev/shm", "tmpfs", shut, shared.as_c_str())?;
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

/// Creates an entry, and its parent directories if they are missing. Most parents have several entries.
fn below_parents<T>(path: &Path, create: impl Fn() -> io::Result<T>) -> io::Result<T> {
    match create() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            path.parent().map_or(Ok(()), std::fs::create_dir_all)?;
            create()
        }
        result => result,
    }
}

/// Mounts `/proc` for this PID namespace. The kernel denies it unless the host's own is fully visible.
pub(super) fn mount_proc() -> io::Result<()> {
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    Ok(mount("proc", "proc", "proc", flags, None)?)
}

/// Detaches the host's file system, and locks down the new root.
pub(super) fn pivot_root() -> io::Result<()> {
    rustix::process::pivot_root(".", ".")?;
    unmount(".", UnmountFlags::DETACH)?;
    rustix::process::chdir("/")?;
    let root = std::fs::File::open("/")?;
    sys::mount_setattr(root.as_fd(), sys::READ_ONLY | sys::NO_SUID | sys::NO_DEV, false)
}
