//! Control groups, where they can be written: memory, processes and processors of a sandbox, limited by the kernel.

mod place;
mod scope;

use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use self::place::{Place, place};

/// What a share of the processors is a share of, in microseconds.
const PERIOD: u64 = 100_000;

/// The process that writes it to a file of a group.
pub(super) const ENTER: &[u8] = b"0";

/// A group of a sandbox, in each hierarchy that counts something. Taken away when dropped, which works once it is empty.
#[derive(Debug)]
pub(super) struct Group {
    directories: Vec<PathBuf>,
    kind: Kind,
    /// Whether its share of the processors is limited.
    pub(super) processors: bool,
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
    /// A new group with its limits; none where this process may make none that holds memory and processes. `processors` is
    /// in thousandths.
    pub(super) fn new(memory: u64, processes: u64, processors: u64) -> Option<Self> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("koze-{}-{count}", std::process::id());
        let (memory, processes) = (memory.to_string(), processes.to_string());
        // What may be run of each tenth of a second, in microseconds.
        let quota = (processors * PERIOD / 1000).to_string();
        // Dropped half-made, it takes away what is there.
        match place()? {
            Place::Unified { parent, processors } => {
                let mut group = Group { directories: Vec::new(), kind: Kind::Unified, processors: false };
                let limits = [("memory.max", &memory[..]), ("pids.max", &processes)];
                group.limited(&parent.join(&name), &limits)?;
                let _ = fs::write(group.directories[0].join("memory.swap.max"), "0");
                if *processors {
                    group.processors = set(&group.directories[0], "cpu.max", &format!("{quota} {PERIOD}"));
                }
                Some(group)
            }
            Place::Legacy { memory: counts_memory, processes: counts_processes, processors } => {
                let mut group = Group { directories: Vec::new(), kind: Kind::Legacy, processors: false };
                group.limited(&counts_memory.join(&name), &[("memory.limit_in_bytes", &memory)])?;
                group.limited(&counts_processes.join(&name), &[("pids.max", &processes)])?;
                if let Some(parent) = processors {
                    let limits =
                        [("cpu.cfs_period_us", &PERIOD.to_string()[..]), ("cpu.cfs_quota_us", &quota)];
                    // Memory and processes are limited all the same.
                    group.processors = group.limited(&parent.join(&name), &limits).is_some();
                }
                Some(group)
            }
        }
    }

    fn limited(&mut self, directory: &Path, limits: &[(&str, &str)]) -> Option<()> {
        let set = |(file, limit): &(&str, &str)| set(directory, file, limit);
        (self.make(directory) && limits.iter().all(set)).then_some(())
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

/// See [`place::own_group_for_test`].
pub(super) fn own_group_for_test(controller: &str) -> bool {
    place::own_group_for_test(controller)
}
