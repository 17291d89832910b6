//! Protections that can be left out. A test that finds a sandbox closed means nothing until the same test has found one
//! open. Only `prove` and the tests of this crate create such sandboxes.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// A protection that is left out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Weakness {
    /// System calls are not filtered.
    Filter,
    /// Programs have all capabilities in the sandbox's user namespace.
    Capabilities,
    /// Programs see and signal the processes of the host.
    Processes,
    /// Programs have the host's network.
    Network,
    /// Programs share memory with the host, System V's kind.
    Ipc,
    /// Limits of resources are those of the host.
    Limits,
    /// The first process can be looked into.
    Dumpable,
    /// What the host program had open stays open.
    Descriptors,
    /// Programs have the host's environment.
    Environment,
    /// Rules of egress are compared with the host that a program names, as it is written and at any port.
    Egress,
    /// A file or directory of the host is seen under its own path, to write.
    File(PathBuf),
    /// The first process runs the host's own program file.
    Program,
    /// The guest's program can be run again in the sandbox.
    Rerun,
    /// What is seen of the host is mounted to write.
    Writable,
    /// What the whole machine counts is bounded as on the host.
    Counters,
    /// All of `/proc` is to be seen.
    Proc,
    /// The watch looks at everything, however much it is, and at all sandboxes in one thread.
    Budget,
    /// A plain user keeps the other groups.
    Groups,
    /// Pipes that programs leave behind are kept however many they are, and this program's own limits stay as they are.
    Pipes,
    /// All sandboxes of root are one user of the host, the first that the system hands out to others, too.
    SharedUser,
    /// The watch does not look at what sockets hold.
    Sockets,
    /// The watch lets as many programs run as like to.
    Processors,
}

/// The weaknesses of a sandbox. Outside of tests there are none.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(crate) struct Weaknesses(Vec<Weakness>);

impl Weaknesses {
    pub(crate) fn new(all: Vec<Weakness>) -> Self {
        Weaknesses(all)
    }

    pub(crate) fn are_none(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn has(&self, weakness: &Weakness) -> bool {
        self.0.contains(weakness)
    }

    /// What of the host's is seen.
    pub(crate) fn files(&self) -> impl Iterator<Item = &PathBuf> {
        self.0
            .iter()
            .filter_map(|weakness| if let Weakness::File(path) = weakness { Some(path) } else { None })
    }
}
