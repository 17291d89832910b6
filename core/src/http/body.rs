//! The bodies of requests and responses, as JSON.

use std::collections::BTreeMap;

#[cfg(test)]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::provider::Info;
use crate::sandbox::process::{ProcessInfo, Signal};
use crate::sandbox::{Entry, Kind, SavedDisk, Status};
use crate::tool::process::SignalName;

/// The sandboxes of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct SandboxList {
    /// The sandboxes, sorted by name.
    pub sandboxes: Vec<SandboxEntry>,
}

/// A sandbox of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct SandboxEntry {
    /// Its name.
    pub name: String,
    /// The name of its image.
    pub image: String,
    /// Whether it runs or sleeps.
    #[cfg_attr(test, schemars(with = "StatusName"))]
    pub status: Status,
    /// Its saved files, if it begins with them when it wakes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub saved: Option<SavedFiles>,
}

/// Whether a sandbox runs or sleeps.
#[cfg(test)]
#[derive(JsonSchema)]
#[schemars(rename_all = "lowercase")]
#[allow(dead_code, reason = "only its schema is used")]
pub(super) enum StatusName {
    Running,
    Sleeping,
}

impl SandboxEntry {
    /// Describes a sandbox at a time in milliseconds since 1970.
    pub fn new(info: &Info, now: u64) -> Self {
        // A model does not know the time.
        let saved =
            |disk: SavedDisk| SavedFiles { bytes: disk.bytes, age_ms: now.saturating_sub(disk.saved_at) };
        SandboxEntry {
            name: info.name.to_string(),
            image: info.profile.clone(),
            status: info.status,
            saved: info.saved.map(saved),
        }
    }
}

/// The files of a sandbox that were saved before it slept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct SavedFiles {
    /// Their size, as the platform counts it.
    pub bytes: u64,
    /// How long ago they were saved, in milliseconds.
    pub age_ms: u64,
}

/// A sandbox, and what its image declares.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct SandboxDetails {
    /// Its name.
    pub name: String,
    /// The name of its image.
    pub image: String,
    /// Whether it runs or sleeps.
    #[cfg_attr(test, schemars(with = "StatusName"))]
    pub status: Status,
    /// The name of its size, if one was chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<String>,
    /// The reference of its image, or the path of its Dockerfile. None if the project no longer declares it.
    pub reference: Option<String>,
    /// Which hosts it may reach. None if the project no longer declares its image.
    pub egress: Option<SandboxEgress>,
    /// The names of its environment variables. Their values may be secret.
    pub variables: Vec<String>,
}

/// Which hosts a sandbox may reach.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct SandboxEgress {
    /// Whether it may reach the internet.
    pub internet: bool,
    /// The hosts that it may reach. Empty means any host, if `internet` is set.
    pub allowed_hosts: Vec<String>,
    /// The hosts that it may not reach.
    pub denied_hosts: Vec<String>,
}

/// A sandbox to create.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct CreateSandbox {
    /// Its name.
    pub name: String,
    /// The name of its image [default: the default image of the project].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// The name of its size [default: that of the image].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<String>,
    /// The idle time before it sleeps, in milliseconds [default: that of the image].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sleep_after_ms: Option<u64>,
}

/// A sandbox that exists now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct CreatedSandbox {
    /// Its name.
    pub name: String,
    /// Whether it did not exist before.
    pub created: bool,
}

/// The request succeeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Done {
    /// Always true.
    pub ok: bool,
}

impl Default for Done {
    fn default() -> Self {
        Done { ok: true }
    }
}

/// The entries of a directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct FileList {
    /// The entries, sorted by name.
    pub entries: Vec<FileEntry>,
}

/// The metadata of a file, a directory, or anything else at a path. Symbolic links are not followed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct FileEntry {
    /// Its name. Bytes that are not UTF-8 are replaced; such an entry cannot be addressed.
    pub name: String,
    /// What it is.
    pub kind: FileKind,
    /// Its size in bytes.
    pub size: u64,
    /// Its permission bits.
    pub mode: u32,
    /// When its content last changed, in milliseconds since 1970, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modified: Option<i64>,
    /// The target of a symbolic link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
}

/// What is at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum FileKind {
    /// A file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Link,
    /// A pipe, a socket or a device.
    Other,
}

impl From<Entry> for FileEntry {
    fn from(Entry { name, stat }: Entry) -> Self {
        let (kind, target) = match stat.kind {
            Kind::File => (FileKind::File, None),
            Kind::Directory => (FileKind::Directory, None),
            Kind::Link(target) => (FileKind::Link, Some(target)),
            Kind::Other => (FileKind::Other, None),
        };
        FileEntry { name, kind, size: stat.size, mode: stat.mode, modified: stat.mtime, target }
    }
}

/// The processes of a sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct ProcessList {
    /// The processes, the oldest first: those that run, and those whose output is kept.
    pub processes: Vec<ProcessEntry>,
}

/// A process of a sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct ProcessEntry {
    /// Its ID.
    pub id: String,
    /// The program.
    pub program: String,
    /// The label that it was started with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Whether it has a terminal.
    pub terminal: bool,
    /// Its exit code, if it has ended: 128 + n after signal n.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
}

impl From<ProcessInfo> for ProcessEntry {
    fn from(info: ProcessInfo) -> Self {
        ProcessEntry {
            id: info.id.to_string(),
            program: info.program,
            label: info.label,
            terminal: info.terminal,
            exit_code: info.exit.map(|exit| exit.code),
        }
    }
}

/// A program to start as a process. It goes on after the request.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct StartProcess {
    /// The program and its arguments. No shell reads them.
    pub argv: Vec<String>,
    /// Environment variables in addition to those of the sandbox.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// The working directory; a relative path starts at `/home/user` [default: `/home/user`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub working_dir: Option<String>,
    /// Its terminal [default: three pipes].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub terminal: Option<TerminalSize>,
    /// Whether the program waits when nobody reads its output [default: the oldest output is dropped].
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub wait_for_readers: bool,
    /// A short text for the list of processes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
}

/// The size of a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct TerminalSize {
    /// The number of rows.
    pub rows: u16,
    /// The number of columns.
    pub columns: u16,
}

/// How much of the body a process has read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct Written {
    /// The number of bytes: fewer than all if the process does not read them in time.
    pub written: usize,
}

/// A signal to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct SendSignal {
    /// The signal. `KILL` ends the process with all that it started; others go to its process group.
    pub signal: SignalName,
}

impl From<Signal> for SendSignal {
    fn from(signal: Signal) -> Self {
        SendSignal { signal: signal.into() }
    }
}

/// Why a request was refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct ErrorBody {
    /// The error.
    pub error: ErrorDetails,
}

impl ErrorBody {
    /// Describes an error.
    pub fn new(code: impl Into<String>, message: impl Into<String>) -> Self {
        ErrorBody { error: ErrorDetails { code: code.into(), message: message.into() } }
    }
}

/// An error.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub struct ErrorDetails {
    /// The kind of the error, such as `not_found`.
    pub code: String,
    /// What was wrong, and what would be right.
    pub message: String,
}
