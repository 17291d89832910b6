//! The messages between the two sides of a launch.

use serde::{Deserialize, Serialize};

use super::overlay::Overlay;
use super::visible_limits::VisibleGroup;
use super::{PLAIN_USER, transparent};
use crate::filter::Program;
use crate::weakness::{Weakness, Weaknesses};

/// From the host to the waiting child process. Descriptors for entering its control group are passed with it, and after them those of the
/// lower directories, if the host has opened them: see [`Spec::mapped_overlays`].
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Order<S> {
    /// The specification of the sandbox: a [`Spec`].
    pub(super) spec: S,
    /// Whether the process has supplementary groups that it may drop. The ID maps are written.
    pub(super) groups: bool,
}

/// From the child process to the host.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Report {
    /// It is in its own namespaces, and waits for its specification.
    Waiting,
    /// The sandbox is set up and locked down, and the guest serves from now on. The files that show the memory in use are passed with it, and
    /// the socket that reports the sandbox's sockets, if supported; before them, those of its network.
    Shut(transparent::Setup),
    /// The launch failed. This is the last message.
    Failed(Failure),
}

/// A failure in the child process.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Failure {
    /// The step that failed.
    pub(super) stage: Stage,
    /// The kernel's error number, or 0 for other errors.
    pub(super) errno: i32,
}

/// The steps of a launch, which differ in what a user can do about a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Stage {
    Talk,
    Group,
    Namespaces,
    Sources,
    User,
    Root,
    Layer,
    Proc,
    Limits,
    Pivot,
    Shut,
}

/// The specification of a sandbox.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Spec {
    /// The directories and files of the host that are visible in it.
    pub(crate) binds: Vec<Bind>,
    /// Its root, if it has an image. Otherwise, the root contains only the entries of this specification, and is read-only.
    pub(crate) image: Option<Overlay>,
    /// The directory that begins with the content of a layer.
    pub(crate) overlay: Option<Overlay>,
    /// The user and group that its programs run as, inside.
    pub(crate) user: User,
    /// Symbolic links: path and target.
    pub(crate) links: Vec<(String, String)>,
    /// Small files: path and content.
    pub(crate) texts: Vec<(String, String)>,
    /// The control group that its programs see.
    pub(crate) visible_group: VisibleGroup,
    /// Its host name.
    pub(crate) hostname: String,
    /// The size of `/dev/shm` in MiB.
    pub(crate) shared_mib: u32,
    /// The maximum number of processes and threads.
    pub(crate) processes: u64,
    /// The maximum length of a file in bytes.
    pub(crate) file_size: u64,
    /// The system call filters that would prevent the setup.
    pub(crate) filters: Vec<Program>,
    /// The user and group on the host, or `None` for the current user.
    pub(crate) owner: Option<u32>,
    /// The protections that it lacks. Not sent: the waiting process has its [`LeftOut`] already.
    #[serde(skip)]
    pub(crate) weak: Weaknesses,
    /// Whether its TCP connections are redirected to sockets that koze serves.
    pub(crate) is_redirected: bool,
    /// What its first process does.
    pub(crate) task: Task,
}

impl Spec {
    /// Returns the specification of a process that sees nothing of the host, and starts no other one.
    pub(crate) fn bare(hostname: &str, task: Task) -> Self {
        Spec {
            binds: Vec::new(),
            image: None,
            overlay: None,
            user: PLAIN_USER,
            links: Vec::new(),
            texts: Vec::new(),
            visible_group: VisibleGroup::Files,
            hostname: hostname.to_owned(),
            shared_mib: 0,
            processes: 1,
            file_size: 0,
            filters: Vec::new(),
            owner: None,
            weak: Weaknesses::default(),
            is_redirected: false,
            task,
        }
    }

    /// Returns the overlays whose lower directories the host opens, and whose descriptors it passes. Without a user of its own, the
    /// sandbox opens them itself.
    pub(super) fn mapped_overlays(&self) -> impl Iterator<Item = &Overlay> {
        let all = self.image.iter().chain(&self.overlay);
        all.filter(|_| self.owner.is_some())
    }
}

/// A user and group in a sandbox. Nothing else is mapped to the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct User {
    pub(crate) user: u32,
    pub(crate) group: u32,
}

/// The protections that a process leaves out: the [`Weaknesses`] that its host has sent.
#[derive(Debug, Deserialize)]
pub(super) struct LeftOut(Vec<Weakness>);

impl LeftOut {
    pub(super) fn has(&self, weakness: &Weakness) -> bool {
        self.0.contains(weakness)
    }
}

/// What the first process of a sandbox does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Task {
    /// It serves files and programs.
    Guest,
    /// It runs scripts itself. Its root is empty, and it has nothing open but its socket.
    Script,
    /// It runs the statements of a database itself. Its root has what the specification binds.
    Database,
    /// It sets up the network of a sandbox and ends, for a check of the machine.
    Network,
}

/// An entry of the host that is visible in a sandbox. Its target must exist.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Bind {
    /// Its path on the host, as bytes, because it need not be UTF-8.
    pub(crate) source: Vec<u8>,
    /// Its path in the sandbox, without the leading slash.
    pub(crate) target: String,
    /// Its type.
    pub(crate) kind: BindKind,
}

/// The type of a bind mount.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum BindKind {
    /// A read-only directory.
    Directory,
    /// A read-only file.
    File,
    /// A read-only file that covers one of the root. Left out if the root has none.
    Cover,
    /// A device.
    Device,
    /// A writable directory of the sandbox.
    Writable,
}
