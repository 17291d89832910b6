//! What the two sides of a launch say to each other.

use serde::{Deserialize, Serialize};

use super::weakness::Weaknesses;

/// From the host to the new process, which waits for it. The doors of its control group come along.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Order<S> {
    /// What the sandbox is to be: a [`Spec`].
    pub(super) spec: S,
    /// Whether the process has groups of the host that it may give up. The maps of users are written.
    pub(super) groups: bool,
}

/// From the new process to the host.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Report {
    /// It is in namespaces of its own, and waits for what it is to be.
    Waiting,
    /// The sandbox is built and shut. The guest serves from here on. A socket may come along.
    Shut,
    /// It failed; nothing comes after.
    Failed(Failure),
}

/// What failed in the new process.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Failure {
    /// Where.
    pub(super) stage: Stage,
    /// The kernel's error number; 0 where it was none.
    pub(super) errno: i32,
}

/// Where a launch can fail: what a person would do about it differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Stage {
    Talk,
    Group,
    Namespaces,
    Sources,
    User,
    Root,
    Proc,
    Pivot,
    Shut,
}

/// A filter of system calls, line by line, as the kernel takes it.
pub(crate) type Program = Vec<(u16, u8, u8, u32)>;

/// What a sandbox is to be.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Spec {
    /// Directories and files of the host that are seen in it.
    pub(crate) binds: Vec<Bind>,
    /// Symbolic links: the path, and where it leads.
    pub(crate) links: Vec<(String, String)>,
    /// Small files of its own: the path, and what is in it.
    pub(crate) texts: Vec<(String, String)>,
    /// What it calls itself.
    pub(crate) hostname: String,
    /// How many processes and threads.
    pub(crate) processes: u64,
    /// How long a file, in bytes.
    pub(crate) file_size: u64,
    /// The filters of system calls that would forbid building it.
    pub(crate) filters: Vec<Program>,
    /// The user and group on the host; none where that is the one who runs this.
    pub(crate) owner: Option<u32>,
    /// What is left out, for tests.
    pub(crate) weak: Weaknesses,
}

/// Something of the host that is seen in a sandbox. What lies at its end must be there.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Bind {
    /// Where it is on the host; bytes, for a path may be any.
    pub(crate) source: Vec<u8>,
    /// Where it is seen, without the slash in front.
    pub(crate) target: String,
    /// What it is.
    pub(crate) kind: BindKind,
}

/// What something of the host is in a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum BindKind {
    /// A directory to read.
    Directory,
    /// A file to read.
    File,
    /// A device.
    Device,
    /// A directory of the sandbox's own.
    Writable,
}
