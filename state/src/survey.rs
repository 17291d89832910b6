//! What people see of the sandboxes on this machine: their settings and limits, and what they use.

use std::time::Duration;

use koze_core::id::SandboxId;
use koze_core::provider::Settings;
use koze_core::sandbox::Status;
use serde::{Deserialize, Serialize};

/// A sandbox of a state directory.
#[derive(Debug)]
pub struct Surveyed {
    /// Its session and its name.
    pub id: SandboxId,
    /// Its settings.
    pub settings: Settings,
    /// Whether any program runs it.
    pub status: Status,
    /// When it was last started or put to sleep, in seconds since the epoch.
    pub used: i64,
    /// When it was created, if known.
    pub created: Option<i64>,
    /// Whether it has a preview.
    pub is_exposed: bool,
    /// Its limits.
    pub limits: SandboxLimits,
    /// The digest of the image whose files are its root. `None` if it sees the programs of this machine.
    pub root: Option<String>,
    /// Which paths of this machine or of its own the sandbox sees, and whether it can write to them.
    pub mounts: Vec<(String, bool)>,
}

/// The limits of a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SandboxLimits {
    /// Memory in bytes.
    pub memory: u64,
    /// Disk in bytes.
    pub disk: u64,
    /// Processor time, in thousandths of a processor.
    pub processors: u64,
    /// Processes and threads.
    pub processes: u64,
}

/// What a running sandbox uses, as far as it is known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Measured {
    /// Its name.
    pub name: String,
    /// The memory of its programs, in bytes.
    pub memory: Option<u64>,
    /// The processor time of its programs since it was started.
    pub processor_time: Option<Duration>,
    /// The size of its files, in bytes.
    pub disk: Option<u64>,
    /// The TCP ports on which its programs listen.
    pub ports: Vec<u16>,
    /// Whether a call is in progress.
    pub is_in_use: bool,
    /// The time since the last call ended.
    pub idle: Duration,
    /// The time until it sleeps, unless a call is in progress.
    pub sleeps_in: Option<Duration>,
    /// Whether the kernel limits its memory and processes, and not only the monitor.
    pub has_memory_group: bool,
    /// Whether the kernel limits its processors.
    pub has_processor_group: bool,
}
