//! Control groups: the kernel limits a sandbox's memory, processes and CPU share if this process can create groups.

mod kills;
mod memory;
mod place;
mod scope;

use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

pub(super) use self::kills::Kills;
pub(super) use self::memory::Memory;
use self::place::{Place, find_place};

/// The period of the CPU limit, in microseconds.
const PERIOD: u64 = 100_000;

/// Written to a group's file, this stands for the writing process.
pub(super) const ENTER: &[u8] = b"0";

/// The group of a sandbox, in each hierarchy that limits something. Dropping it removes it, which works once it is
/// empty.
#[derive(Debug)]
pub(super) struct Group {
    directories: Vec<PathBuf>,
    kind: Kind,
    /// Whether its CPU share is limited.
    pub(super) processors: bool,
    /// The limit of its memory in bytes.
    memory: u64,
}

/// How a process enters the group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Version 2: its parent moves it.
    Unified,
    /// Version 1: it moves itself. Moving another process waits for a grace period of all processors, several
    /// milliseconds; a thread that moves only itself does not.
    Legacy,
}

impl Group {
    /// Creates a group without limits. Returns `None` if this process may not create one that counts memory and processes.
    pub(super) fn new() -> Option<Self> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("koze-{}-{count}", std::process::id());
        // Dropping an incomplete group removes what exists of it.
        match find_place()? {
            Place::Unified { parent, processors } => {
                let mut group = Group {
                    directories: Vec::new(),
                    kind: Kind::Unified,
                    processors: *processors,
                    memory: 0,
                };
                group.make(&parent.join(&name))?;
                Some(group)
            }
            Place::Legacy { memory, processes, processors } => {
                let mut group =
                    Group { directories: Vec::new(), kind: Kind::Legacy, processors: false, memory: 0 };
                group.make(&memory.join(&name))?;
                group.make(&processes.join(&name))?;
                // Without it, memory and processes are still limited.
                group.processors =
                    processors.as_ref().is_some_and(|parent| group.make(&parent.join(&name)).is_some());
                Some(group)
            }
        }
    }

    /// Sets the limits. Returns `None` if memory and processes cannot be limited. `processors` is in thousandths.
    pub(super) fn limited(mut self, memory: u64, processes: u64, processors: u64) -> Option<Self> {
        self.memory = memory;
        let (memory, processes) = (memory.to_string(), processes.to_string());
        let quota = runtime_quota(processors).to_string();
        let has = match self.kind {
            Kind::Unified => {
                let group = &self.directories[0];
                let has =
                    write_limit(group, "memory.max", &memory) && write_limit(group, "pids.max", &processes);
                let _ = fs::write(group.join("memory.swap.max"), "0");
                self.processors =
                    self.processors && write_limit(group, "cpu.max", &cpu_max(Some(processors)));
                has
            }
            Kind::Legacy => {
                self.processors = self.processors
                    && write_limit(&self.directories[2], "cpu.cfs_period_us", &PERIOD.to_string())
                    && write_limit(&self.directories[2], "cpu.cfs_quota_us", &quota);
                write_limit(&self.directories[0], "memory.limit_in_bytes", &memory)
                    && write_limit(&self.directories[1], "pids.max", &processes)
            }
        };
        has.then_some(self)
    }

    /// Returns whether it is one group of version 2, which programs can read.
    pub(super) fn is_unified(&self) -> bool {
        self.kind == Kind::Unified
    }

    fn make(&mut self, directory: &Path) -> Option<()> {
        fs::create_dir(directory).ok()?;
        self.directories.push(directory.to_owned());
        Some(())
    }

    /// Moves a process and its future children into the group, unless it enters through the [`doors`](Self::doors).
    pub(super) fn add(&self, process: u32) -> io::Result<()> {
        match self.kind {
            Kind::Unified => fs::write(self.directories[0].join("cgroup.procs"), process.to_string()),
            Kind::Legacy => Ok(()),
        }
    }

    /// Returns the counter of the programs that the kernel kills for the group's memory.
    pub(super) fn kills(&self) -> Kills {
        let file = match self.kind {
            Kind::Unified => "memory.events",
            Kind::Legacy => "memory.oom_control",
        };
        Kills::new(self.directories[0].join(file), self.memory)
    }

    /// Returns the counter of the memory that programs of the group use.
    pub(super) fn memory(&self) -> Memory {
        Memory::new(self.directories[0].join("memory.stat"))
    }

    /// Returns the files to which a single-threaded process writes [`ENTER`] to move itself and its future children
    /// into the group.
    pub(super) fn doors(&self) -> io::Result<Vec<OwnedFd>> {
        let tasks = self.directories.iter().filter(|_| self.kind == Kind::Legacy);
        tasks.map(|directory| Ok(File::options().write(true).open(directory.join("tasks"))?.into())).collect()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        for directory in &self.directories {
            // An exited process may be counted a moment longer. The next program removes remaining groups.
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

/// Returns whether the host uses version 2. If it does not, mounting a group of version 2 would create the hierarchy. The file is read once,
/// because the kernel may block readers while it removes groups.
pub(super) fn has_unified() -> bool {
    static FOUND: OnceLock<bool> = OnceLock::new();
    let read = || fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    *FOUND.get_or_init(|| read().lines().any(|line| line.starts_with("0::")))
}

/// Returns the runtime in a period, in microseconds. `processors` is in thousandths.
fn runtime_quota(processors: u64) -> u64 {
    processors * PERIOD / 1000
}

/// Returns the content of `cpu.max`. `processors` is in thousandths; `None` means no limit.
pub(super) fn cpu_max(processors: Option<u64>) -> String {
    let quota =
        processors.map_or_else(|| "max".to_owned(), |processors| runtime_quota(processors).to_string());
    format!("{quota} {PERIOD}")
}

fn write_limit(directory: &Path, file: &str, limit: &str) -> bool {
    let file = directory.join(file);
    // Never create the file: only one that the kernel provides is a limit.
    file.exists() && fs::write(file, limit).is_ok()
}

/// See [`place::own_group_for_test`].
pub(super) fn own_group_for_test(controller: &str) -> bool {
    place::own_group_for_test(controller)
}
