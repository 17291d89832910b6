//! The limits for which a sandbox's programs are killed, with messages for the caller.

use std::fmt::{self, Display, Formatter};
use std::time::Duration;

use crate::host::disk::MAX_DEPTH;
use crate::sandbox::limits::PROCESSES;

/// The maximum number of descriptors over all processes.
pub(super) const DESCRIPTORS: usize = 65_536;
/// The maximum CPU time of one check.
pub(super) const TIME: Duration = Duration::from_millis(500);
/// How many times the limit processes may map in shared memory: the exact amount is expensive to determine.
pub(super) const SHARED: u64 = 16;

/// An exceeded limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Over {
    /// Memory; the limit in MiB.
    Memory(u64),
    /// Mapped memory, which could not be determined exactly within the budget; the limit in MiB.
    Shared(u64),
    /// Memory of sockets in the kernel; the limit in MiB.
    Sockets(u64),
    /// Processes and threads.
    Crowd,
    /// Disk space; the limit in MB.
    Disk(u64),
    /// Depth of directories, or number of entries.
    Tree(u64),
    /// Open descriptors.
    Descriptors,
    /// The cost of checking the limits.
    Work,
}

impl Display for Over {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Over::Memory(most) => write!(f, "they used more than {most} MiB of memory"),
            Over::Shared(most) => {
                let times = SHARED;
                write!(
                    f,
                    "they had more than {times} times {most} MiB of memory mapped, counted once per process"
                )
            }
            Over::Sockets(most) => write!(f, "data in sockets took more than {most} MiB of memory"),
            Over::Crowd => {
                write!(f, "nearly all of the {PROCESSES} processes and threads were in use for a second")
            }
            Over::Disk(most) => write!(f, "the files took more than {most} MB of disk, and grew"),
            Over::Tree(most) => write!(
                f,
                "there were more than {most} files, or directories were nested more than {MAX_DEPTH} deep"
            ),
            Over::Descriptors => write!(f, "they had more than {DESCRIPTORS} descriptors open"),
            Over::Work => write!(
                f,
                "checking their limits took more than {} ms of processor time: they had too many threads, mappings or \
                 descriptors",
                TIME.as_millis()
            ),
        }
    }
}
