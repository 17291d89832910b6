//! Shows programs the limits of their sandbox in the places where programs and runtimes look for them: `/proc/meminfo`, and a control
//! group of version 2. A program that sees the memory of the host plans with it, and is killed.
//!
//! If a control group of version 2 limits the sandbox, programs see that group. Otherwise they see files that look like those of a group.
//! The watch updates the memory in use from the host.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, openat};
use rustix::io::Errno;
use rustix::mount::{MountFlags, OpenTreeFlags, mount, mount_bind, mount_remount, open_tree};
use serde::{Deserialize, Serialize};

use super::mounts::ROOM;
use crate::cgroup;

/// The files that are mounted where programs look: their paths in the sandbox, without the leading slash.
const MEMINFO: &str = "var/lib/koze/limits/meminfo";
const CONTROLLERS: &str = "var/lib/koze/limits/cgroups";
const GROUP: &str = "var/lib/koze/limits/cgroup";
const CURRENT: &str = "var/lib/koze/limits/cgroup/memory.current";

/// The memory in use until the watch has measured it, in bytes: about that of the guest. Java treats 0 as an error.
const AT_START: u64 = 1 << 20;

/// Where programs look for control groups.
const MOUNT_POINT: &str = "/sys/fs/cgroup";

/// The limits of a sandbox.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Its memory in bytes.
    pub(crate) memory: u64,
    /// The number of its processes and threads.
    pub(crate) processes: u64,
    /// Its share of the processors in thousandths of one, if it is limited.
    pub(crate) processors: Option<u64>,
}

/// Where the files in `/sys/fs/cgroup` come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum VisibleGroup {
    /// The sandbox's own control group, which is one of version 2.
    Own,
    /// koze's files, which cover a mounted group.
    Covered,
    /// koze's files alone, because the host does not use version 2.
    Files,
}

/// Returns the files that show the limits: paths in the sandbox, and content.
pub(crate) fn limit_files(limits: Limits) -> Vec<(String, String)> {
    let of_group = |name: &str, value: String| (format!("{GROUP}/{name}"), format!("{value}\n"));
    // Java takes the version of control groups from this file, and requires these names.
    let controllers = ["cpuset", "cpu", "cpuacct", "memory", "pids"].map(|name| format!("{name}\t0\t1\t1\n"));
    let header = "#subsys_name\thierarchy\tnum_cgroups\tenabled\n";
    vec![
        (MEMINFO.to_owned(), meminfo_text(limits.memory, AT_START)),
        (CONTROLLERS.to_owned(), format!("{header}{}", controllers.concat())),
        of_group("cgroup.controllers", "cpu memory pids".into()),
        of_group("cpu.max", cgroup::cpu_max(limits.processors)),
        (CURRENT.to_owned(), current_text(AT_START)),
        of_group("memory.high", "max".into()),
        of_group("memory.max", limits.memory.to_string()),
        of_group("memory.swap.max", "0".into()),
        of_group("pids.max", limits.processes.to_string()),
    ]
}

/// The files that show the memory in use, for the host.
#[derive(Debug)]
pub(crate) struct MemoryFiles {
    meminfo: OwnedFd,
    current: OwnedFd,
}

impl MemoryFiles {
    /// Opens the files below the current directory, which is the root. Their directory becomes read-only, so they are opened through
    /// another mount of it.
    pub(super) fn open() -> io::Result<Self> {
        let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC;
        let room = open_tree(CWD, ROOM, flags)?;
        let open = |path: &str| {
            let path = Path::new(path).strip_prefix(ROOM).map_err(io::Error::other)?;
            Ok::<_, io::Error>(openat(&room, path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?)
        };
        Ok(MemoryFiles { meminfo: open(MEMINFO)?, current: open(CURRENT)? })
    }

    /// Returns the descriptors that are passed to the host.
    pub(super) fn descriptors(&self) -> [&OwnedFd; 2] {
        [&self.meminfo, &self.current]
    }

    /// Takes the descriptors from those that the sandbox has passed.
    pub(super) fn take(passed: &mut impl Iterator<Item = OwnedFd>) -> Option<Self> {
        Some(MemoryFiles { meminfo: passed.next()?, current: passed.next()? })
    }

    /// Shows programs that they use this many bytes of their memory.
    pub(crate) fn show(&self, total: u64, used: u64) {
        for (file, text) in [(&self.current, current_text(used)), (&self.meminfo, meminfo_text(total, used))]
        {
            // The new content has the same length. If it cannot be written, programs see the previous one.
            let _ = rustix::io::pwrite(file, text.as_bytes(), 0);
        }
    }
}

/// Returns the content of `memory.current`, which always has the same length.
fn current_text(used: u64) -> String {
    format!("{used:<20}\n")
}

/// Returns the content of `/proc/meminfo`: the fields that `free` and other programs require.
fn meminfo_text(total: u64, used: u64) -> String {
    let free = total.saturating_sub(used);
    let fields = [
        ("MemTotal", total),
        ("MemFree", free),
        ("MemAvailable", free),
        ("Buffers", 0),
        ("Cached", 0),
        ("SwapCached", 0),
        ("Active", total - free),
        ("Inactive", 0),
        ("SwapTotal", 0),
        ("SwapFree", 0),
        ("Shmem", 0),
        ("Slab", 0),
        ("SReclaimable", 0),
        ("SUnreclaim", 0),
    ];
    fields.map(|(name, bytes)| format!("{:<16}{:>8} kB\n", format!("{name}:"), bytes >> 10)).concat()
}

/// Mounts the files in the places where programs look. Their directory is read-only by now, and so are mounts derived from it.
pub(super) fn mount_limit_files(group: VisibleGroup) -> io::Result<()> {
    for (file, target) in [(MEMINFO, "/proc/meminfo"), (CONTROLLERS, "/proc/cgroups")] {
        match mount_bind(format!("/{file}"), target) {
            // A kernel without control groups lacks `/proc/cgroups`.
            Ok(()) | Err(Errno::NOENT) => {}
            Err(error) => return Err(error.into()),
        }
    }
    // Java and Go use the files only if the table of mounts has a control group there. So koze mounts one even if it does not belong
    // to the sandbox, and covers it: programs cannot reach what is below the files.
    let mounted = group != VisibleGroup::Files && mount_group().is_ok();
    if mounted && group == VisibleGroup::Own {
        return Ok(());
    }
    Ok(mount_bind(format!("/{GROUP}"), MOUNT_POINT)?)
}

/// Mounts the group that is the root of the cgroup namespace.
fn mount_group() -> io::Result<()> {
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    mount("cgroup2", MOUNT_POINT, "cgroup2", flags, None)?;
    // Not a flag of the first call, which could make the file system read-only for the host, too.
    Ok(mount_remount(MOUNT_POINT, MountFlags::BIND | MountFlags::RDONLY | flags, c"")?)
}
