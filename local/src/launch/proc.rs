//! Restricts `/proc`, and machine-wide counters.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::Path;

use rustix::fs::CWD;
use rustix::io::Errno;
use rustix::mount::{MoveMountFlags, OpenTreeFlags, mount_bind, move_mount, open_tree};
use std::os::fd::AsFd;

use super::mounts::EMPTY as EMPTY_DIRECTORY;
use super::sys;

/// Files about the host's keys, kernel and devices. They are replaced by empty files.
const EMPTY: &[&str] = &[
    "cmdline",
    "config.gz",
    "interrupts",
    "kcore",
    "key-users",
    "keys",
    "latency_stats",
    "sched_debug",
    "sysrq-trigger",
    "timer_list",
    "timer_stats",
];
/// Such directories, and the one whose files any user can register triggers in, which cost the kernel time. They are
/// replaced by an empty directory.
const EMPTY_DIRECTORIES: &[&str] = &["acpi", "asound", "pressure", "scsi"];
/// Files that only the host's root could change. They are mounted read-only.
const READ_ONLY: &[&str] = &["bus", "fs", "irq", "sys"];

/// The fraction of a host user's limits that one sandbox gets. All sandboxes of a user share the user's limits.
pub(super) const SHARE: u64 = 4;

/// Lowers the limits that count for all processes of a user, inside and outside of sandboxes. The kernel enforces the
/// minimum of this namespace's and the host's.
pub(super) fn bound_counters() -> io::Result<()> {
    // Allow no further namespaces: creating one would require a user namespace.
    write_setting("max_user_namespaces", 0)?;
    for kind in ["instances", "watches"] {
        let host = match fs::read_to_string(format!("/proc/sys/fs/inotify/max_user_{kind}")) {
            Ok(text) => text.trim().parse::<u64>().map_err(io::Error::other)?,
            // The kernel lacks it.
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        write_setting(&format!("max_inotify_{kind}"), (host / SHARE).max(1))?;
    }
    Ok(())
}

fn write_setting(name: &str, most: u64) -> io::Result<()> {
    // Open the existing file for writing; never create it.
    let file = fs::File::options().write(true).open(Path::new("/proc/sys/user").join(name));
    io::Write::write_all(&mut file?, most.to_string().as_bytes())
}

/// Hides the machine's entries. What covers them is read-only by now, and so are mounts derived from it.
pub(super) fn mask_entries() -> io::Result<()> {
    for name in EMPTY {
        cover_entry("/dev/null", name)?;
    }
    for name in EMPTY_DIRECTORIES {
        cover_entry(EMPTY_DIRECTORY, name)?;
    }
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
    for name in READ_ONLY {
        let path = Path::new("/proc").join(name);
        let tree = match open_tree(CWD, &path, flags) {
            Err(Errno::NOENT) => continue,
            tree => tree?,
        };
        sys::mount_setattr(tree.as_fd(), sys::READ_ONLY, false)?;
        move_mount(&tree, "", CWD, &path, MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH)?;
    }
    Ok(())
}

fn cover_entry(with: &str, name: &str) -> io::Result<()> {
    match mount_bind(with, Path::new("/proc").join(name)) {
        // Not every kernel has all of them.
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
