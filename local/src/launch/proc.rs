//! What a sandbox sees in `/proc` of the machine, and what it may take of what the machine counts.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::Path;

use rustix::fs::CWD;
use rustix::io::Errno;
use rustix::mount::{MoveMountFlags, OpenTreeFlags, mount_bind, move_mount, open_tree};
use std::os::fd::AsFd;

use super::sys;

/// Files that tell of the host's keys, kernel and devices: empty.
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
/// Directories of the kind: as empty as `/run` is.
const EMPTY_DIRECTORIES: &[&str] = &["acpi", "asound", "scsi"];
/// What only the host's root could change: mounted to read, so that nobody can.
const READ_ONLY: &[&str] = &["bus", "fs", "irq", "sys"];

/// A share of what the host gives a user, for one sandbox: all of that user's have it together.
const SHARE: u64 = 4;

/// Bounds what is counted for all processes of a user, in sandboxes and beside them. The kernel keeps to the least of what
/// this namespace and the host allow.
pub(super) fn bound_counters() -> io::Result<()> {
    // No namespace but those there are: for mount namespaces and the like, too, a user namespace would be needed.
    set("max_user_namespaces", 0)?;
    for kind in ["instances", "watches"] {
        let host = match fs::read_to_string(format!("/proc/sys/fs/inotify/max_user_{kind}")) {
            Ok(text) => text.trim().parse::<u64>().map_err(io::Error::other)?,
            // A kernel without it.
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            Err(error) => return Err(error),
        };
        set(&format!("max_inotify_{kind}"), (host / SHARE).max(1))?;
    }
    Ok(())
}

fn set(name: &str, most: u64) -> io::Result<()> {
    // The file is there: opened to write, and not made.
    let file = fs::File::options().write(true).open(Path::new("/proc/sys/user").join(name));
    io::Write::write_all(&mut file?, most.to_string().as_bytes())
}

/// Shuts what is of the machine. The root is mounted to read by now, and so is what is taken from it.
pub(super) fn mask() -> io::Result<()> {
    for name in EMPTY {
        cover("/dev/null", name)?;
    }
    for name in EMPTY_DIRECTORIES {
        cover("/run", name)?;
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

fn cover(with: &str, name: &str) -> io::Result<()> {
    match mount_bind(with, Path::new("/proc").join(name)) {
        // Not every kernel has every one.
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
