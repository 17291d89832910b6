//! Control groups, where they can be written: memory and processes of a sandbox, counted by the kernel.

use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Whoever writes it to a door.
pub(super) const ENTER: &[u8] = b"0";

/// A group of a sandbox, in each hierarchy that counts something. Taken away when dropped, which works once it is empty.
#[derive(Debug)]
pub(super) struct Group {
    directories: Vec<PathBuf>,
    kind: Kind,
}

/// How a process comes in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Version 2: its parent puts it in.
    Unified,
    /// Version 1: it goes in by itself. There a process that moves another one waits for all processors to have been
    /// idle, several milliseconds; a thread that moves itself alone does not.
    Legacy,
}

impl Group {
    /// A new group with its limits; none where this process may make none that holds both.
    pub(super) fn new(memory: u64, processes: u64) -> Option<Self> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("koze-{}-{count}", std::process::id());
        let own = fs::read_to_string("/proc/self/cgroup").ok()?;
        let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
        // Dropped half-made, it takes away what is there.
        let mut group = Group { directories: Vec::new(), kind: Kind::Unified };
        let memory = memory.to_string();
        let processes = processes.to_string();
        if let Some(parent) = unified(&own, &mounts)
            && sweep(&parent)
            && group.make(&parent.join(&name))
            && set(&group.directories[0], "memory.max", &memory)
            && set(&group.directories[0], "pids.max", &processes)
        {
            let _ = fs::write(group.directories[0].join("memory.swap.max"), "0");
            return Some(group);
        }
        group = Group { directories: Vec::new(), kind: Kind::Legacy };
        for (controller, file, limit) in
            [("memory", "memory.limit_in_bytes", &memory), ("pids", "pids.max", &processes)]
        {
            let parent = legacy(&own, &mounts, controller)?;
            if !(sweep(&parent) && group.make(&parent.join(&name))) {
                return None;
            }
            let directory = group.directories.last()?;
            if !set(directory, file, limit) {
                return None;
            }
        }
        Some(group)
    }

    fn make(&mut self, directory: &Path) -> bool {
        let made = fs::create_dir(directory).is_ok();
        if made {
            self.directories.push(directory.to_owned());
        }
        made
    }

    /// Puts a process in, and all it will start, unless it is let in by the [`doors`](Self::doors).
    pub(super) fn add(&self, process: u32) -> io::Result<()> {
        match self.kind {
            Kind::Unified => fs::write(self.directories[0].join("cgroup.procs"), process.to_string()),
            Kind::Legacy => Ok(()),
        }
    }

    /// What a process of one thread writes [`ENTER`] to, each, to be in with all it will start.
    pub(super) fn doors(&self) -> io::Result<Vec<OwnedFd>> {
        let tasks = self.directories.iter().filter(|_| self.kind == Kind::Legacy);
        tasks.map(|directory| Ok(File::options().write(true).open(directory.join("tasks"))?.into())).collect()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        for directory in &self.directories {
            // What has just ended may be counted a moment longer. What stays is swept by the next program.
            for _ in 0..20 {
                match fs::remove_dir(directory) {
                    Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                        std::thread::sleep(std::time::Duration::from_millis(5));
                    }
                    _ => break,
                }
            }
        }
    }
}

fn set(directory: &Path, file: &str, limit: &str) -> bool {
    let file = directory.join(file);
    // A file that the kernel did not make is no limit.
    file.exists() && fs::write(file, limit).is_ok()
}

/// Takes away the empty groups of programs that are gone. True, for it is a step of several.
fn sweep(parent: &Path) -> bool {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let pid =
            name.to_str().and_then(|name| name.strip_prefix("koze-")?.split_once('-')?.0.parse::<u32>().ok());
        if pid.is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists()) {
            let _ = fs::remove_dir(entry.path());
        }
    }
    true
}

/// This process's own group in the unified hierarchy (version 2).
fn unified(own: &str, mounts: &str) -> Option<PathBuf> {
    let group = own.lines().find_map(|line| line.strip_prefix("0::"))?;
    find(mounts, group, |kind, _| kind == "cgroup2")
}

/// The same in the hierarchy of a controller (version 1).
fn legacy(own: &str, mounts: &str, controller: &str) -> Option<PathBuf> {
    let group = own.lines().find_map(|line| {
        let (controllers, group) = line.split_once(':')?.1.split_once(':')?;
        controllers.split(',').any(|one| one == controller).then_some(group)
    })?;
    find(mounts, group, |kind, options| kind == "cgroup" && options.split(',').any(|one| one == controller))
}

/// Where a group is mounted: `mountinfo` says what part of the hierarchy is mounted where.
fn find(mounts: &str, group: &str, wanted: impl Fn(&str, &str) -> bool) -> Option<PathBuf> {
    mounts.lines().find_map(|line| {
        let (left, right) = line.split_once(" - ")?;
        let mut left = left.split(' ').skip(3);
        let (root, point) = (left.next()?, left.next()?);
        let mut right = right.split(' ');
        let (kind, options) = (right.next()?, right.nth(1)?);
        if !wanted(kind, options) {
            return None;
        }
        let below = if root == "/" { group } else { group.strip_prefix(root)? };
        let path = Path::new(point).join(below.trim_start_matches('/'));
        path.is_dir().then_some(path)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_a_group_is_mounted() {
        let own = "8:pids:/\n4:memory:/a\n1:cpu,cpuacct:/b\n0::/";
        let mounts = "36 35 0:31 / /tmp rw,relatime shared:9 - cgroup cgroup rw,memory\n\
                      37 35 0:32 / / rw - cgroup2 none rw";
        assert_eq!(legacy(own, mounts, "memory"), None, "/tmp/a is no directory");
        assert_eq!(legacy("4:memory:/", mounts, "memory"), Some("/tmp".into()));
        assert_eq!(legacy(own, mounts, "pids"), None);
        assert_eq!(unified(own, mounts), Some("/".into()));
    }
}
