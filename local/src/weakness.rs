//! Protections that can be left out. A test that finds a protection effective is meaningless unless the same test fails
//! without it. Only `prove` can leave one out: [`Weaknesses`] requires its [`Permit`], and cannot be deserialized.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::prove::Permit;

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
    /// Connections are not redirected to the proxy, as on a kernel without nftables.
    Redirection,
    /// Programs share System V shared memory with the host.
    Ipc,
    /// The resource limits are those of the host.
    Limits,
    /// The first process can be inspected.
    Dumpable,
    /// Descriptors of the host program stay open.
    Descriptors,
    /// Programs have the host's environment.
    Environment,
    /// Egress rules are compared only with the literal host of a request, at any port.
    Egress,
    /// Programs have the values of credentials in place of their placeholders.
    Credentials,
    /// A file or directory of the host is visible and writable under its own path.
    File(PathBuf),
    /// The first process runs the host's own program file.
    Program,
    /// The guest's program can be run again in the sandbox.
    Rerun,
    /// Mounts of the host are writable.
    Writable,
    /// Machine-wide counters are limited as on the host.
    Counters,
    /// All of `/proc` is visible.
    Proc,
    /// The watch has no budget, and checks all sandboxes in one thread.
    Budget,
    /// An unprivileged user keeps supplementary groups.
    Groups,
    /// The number of pipes of background processes is unlimited, and this program's own limits are not raised.
    Pipes,
    /// All sandboxes of root share one host user, the first one that the system also assigns to others.
    SharedUser,
    /// The watch does not measure sockets.
    Sockets,
    /// The watch does not limit runnable threads.
    Processors,
    /// Statements in the databases of scripts run in this program, without limits.
    Statements,
    /// What the pending calls of a script and their answers hold is not limited.
    Pending,
    /// A reader of commands calls itself for each level.
    Nesting,
    /// The input of a tool is built as values.
    Values,
}

/// The protections that a sandbox lacks: none, except in proofs and tests.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct Weaknesses(Vec<Weakness>);

impl Weaknesses {
    pub(crate) fn new(all: Vec<Weakness>, _: &Permit) -> Self {
        Weaknesses(all)
    }

    pub(crate) fn are_none(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn has(&self, weakness: &Weakness) -> bool {
        self.0.contains(weakness)
    }

    /// Returns the visible entries of the host.
    pub(crate) fn files(&self) -> impl Iterator<Item = &PathBuf> {
        self.0
            .iter()
            .filter_map(|weakness| if let Weakness::File(path) = weakness { Some(path) } else { None })
    }
}
