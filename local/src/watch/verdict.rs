//! Why the programs of a sandbox are killed, in words for the caller of one of them.

use std::fmt::{self, Display, Formatter};

use super::budget::{DESCRIPTORS, TIME};
use crate::layout::{self, PROCESSES};

/// What a sandbox has too much of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Over {
    /// Memory: how many MiB it may have.
    Memory(u64),
    /// Memory, as far as it can be told within the budget: how many MiB it may have.
    Shared(u64),
    /// Memory that the kernel holds for sockets: how many MiB it may have.
    Sockets(u64),
    /// Processes and threads.
    Crowd,
    /// Bytes on the disk: how many MB it may have.
    Disk(u64),
    /// Directories in each other, or entries.
    Tree(u64),
    /// Open descriptors.
    Descriptors,
    /// Work for the watch.
    Work,
}

impl Display for Over {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Over::Memory(most) => write!(f, "they used more than {most} MiB of memory"),
            Over::Shared(most) => {
                let times = super::follow::SHARED;
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
                "there were more than {most} files, or directories were nested more than {} deep",
                layout::DEEPEST
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
