//! What a provider of sandboxes implements: few core operations, on which all tools are built once.

use std::future::Future;
use std::time::Duration;

use crate::error::Result;
use crate::transfer::pieces;

/// `Send` natively. On wasm32 nothing, for JavaScript's promises stay on the thread they are made on.
#[cfg(not(target_arch = "wasm32"))]
pub trait MaybeSend: Send {}
#[cfg(not(target_arch = "wasm32"))]
impl<T: Send + ?Sized> MaybeSend for T {}
/// `Send` natively. On wasm32 nothing, for JavaScript's promises stay on the thread they are made on.
#[cfg(target_arch = "wasm32")]
pub trait MaybeSend {}
#[cfg(target_arch = "wasm32")]
impl<T: ?Sized> MaybeSend for T {}

/// `Sync` natively, nothing on wasm32; see [`MaybeSend`].
#[cfg(not(target_arch = "wasm32"))]
pub trait MaybeSync: Sync {}
#[cfg(not(target_arch = "wasm32"))]
impl<T: Sync + ?Sized> MaybeSync for T {}
/// `Sync` natively, nothing on wasm32; see [`MaybeSend`].
#[cfg(target_arch = "wasm32")]
pub trait MaybeSync {}
#[cfg(target_arch = "wasm32")]
impl<T: ?Sized> MaybeSync for T {}

/// One sandbox.
///
/// Paths are absolute and resolved inside the sandbox, symbolic links followed, under the root they are confined to.
/// Writes to one path come one after the other; a write that fails leaves the old file. A clone is the same sandbox.
pub trait Sandbox: Clone + MaybeSend + MaybeSync + 'static {
    /// What it can do; the rest answers [`Code::Unsupported`](crate::Code::Unsupported).
    fn capabilities(&self) -> Capabilities;

    /// Runs a program to its end, or for as long as it may.
    fn exec(&self, command: Command) -> impl Future<Output = Result<Output>> + MaybeSend;

    /// A piece of a file: at most `limit` bytes from `offset`, fewer only at the end.
    fn read(
        &self,
        path: Place<'_>,
        offset: u64,
        limit: u64,
    ) -> impl Future<Output = Result<Piece>> + MaybeSend;

    /// Writes a file, directories above it made where they are missing, and returns its size in bytes.
    fn write(
        &self,
        path: Place<'_>,
        bytes: Vec<u8>,
        how: Write,
    ) -> impl Future<Output = Result<u64>> + MaybeSend;

    /// What is in a directory, in no order, `.` and `..` left out.
    fn list(&self, path: Place<'_>) -> impl Future<Output = Result<Vec<Entry>>> + MaybeSend;

    /// What is at a path; of a symbolic link at its end, the link itself.
    fn stat(&self, path: Place<'_>) -> impl Future<Output = Result<Stat>> + MaybeSend;

    /// Makes a directory, and those above it; one that is there is as good.
    fn make_dir(&self, path: Place<'_>) -> impl Future<Output = Result<()>> + MaybeSend;

    /// Makes a symbolic link that leads to `target`, which may be anything.
    fn make_link(&self, path: Place<'_>, target: &str) -> impl Future<Output = Result<()>> + MaybeSend;

    /// Sets the permission bits of a file or directory.
    fn set_mode(&self, path: Place<'_>, mode: u32) -> impl Future<Output = Result<()>> + MaybeSend;

    /// Takes away what is at a path, a directory with all that is in it; of a symbolic link the link itself.
    fn remove(&self, path: Place<'_>) -> impl Future<Output = Result<()>> + MaybeSend;

    /// Moves a file or directory; a file at `to` is replaced in one step.
    fn rename(&self, from: Place<'_>, to: Place<'_>) -> impl Future<Output = Result<()>> + MaybeSend;

    /// Copies a file, or a directory with all that is in it, to a place of another sandbox where nothing is, and returns
    /// the bytes of its files. Of what fails, something may be left at the place.
    ///
    /// What a provider knows no faster way for goes in pieces, over the operations above.
    fn copy_to<T: Sandbox>(
        &self,
        from: Place<'_>,
        to: &T,
        target: Place<'_>,
    ) -> impl Future<Output = Result<u64>> + MaybeSend {
        pieces::copy(self, from, to, target)
    }

    /// Notes that what is put together at a path is on its way to another. Where the program that runs the sandbox is
    /// killed before [`forget_passing`](Self::forget_passing), the next start of the sandbox takes away what is there.
    ///
    /// Sandboxes whose files end with them note nothing.
    fn note_passing(&self, path: &str) -> impl Future<Output = Result<()>> + MaybeSend {
        let _ = path;
        async { Ok(()) }
    }

    /// Ends what [`note_passing`](Self::note_passing) began: what is at the path, if anything is, stays.
    fn forget_passing(&self, path: &str) -> impl Future<Output = Result<()>> + MaybeSend {
        let _ = path;
        async { Ok(()) }
    }

    /// The URL at which a port of the sandbox answers.
    fn expose(&self, port: u16) -> impl Future<Output = Result<String>> + MaybeSend;

    /// Whether it runs.
    fn status(&self) -> impl Future<Output = Result<Status>> + MaybeSend;

    /// Ends it, and takes its files away.
    fn destroy(&self) -> impl Future<Output = Result<()>> + MaybeSend;
}

/// What a sandbox can do beside holding files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Capabilities {
    /// It runs programs.
    pub exec: bool,
    /// Its ports can be reached.
    pub expose: bool,
}

/// A path, and the directory it is confined to: what it leads to, links followed, must lie in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place<'a> {
    /// The directory; `/` is the whole sandbox.
    pub root: &'a str,
    /// The path, absolute.
    pub path: &'a str,
}

/// A program to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// The program and its arguments; the program is looked for on the sandbox's `PATH`.
    pub argv: Vec<String>,
    /// The directory it starts in, absolute.
    pub working_dir: String,
    /// Variables beside the sandbox's own.
    pub env: Vec<(String, String)>,
    /// How long it may run; then its whole process group is killed, and what it had printed is kept.
    pub timeout: Duration,
    /// How many bytes of each stream are kept: the first and the last, with a mark between.
    pub max_output: usize,
}

/// What came of a program.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Output {
    /// Its standard output.
    pub stdout: Vec<u8>,
    /// Its standard error.
    pub stderr: Vec<u8>,
    /// Its exit code; 128 + n after the signal n, 124 where the time was up.
    pub exit_code: i32,
    /// Whether the time was up.
    pub timed_out: bool,
}

/// A piece of a file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Piece {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// The size of the whole file.
    pub size: u64,
}

/// How a file is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Write {
    /// The file is replaced in one step; its permission bits stay.
    Replace,
    /// The bytes come behind those that are there, all together.
    Append,
}

/// What is at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stat {
    /// What it is.
    pub kind: Kind,
    /// Its size in bytes.
    pub size: u64,
    /// Its permission bits.
    pub mode: u32,
}

/// Something in a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its name; bytes that are not UTF-8 stand as U+FFFD, and no path leads there.
    pub name: String,
    /// What is there, a symbolic link not followed.
    pub stat: Stat,
}

/// What something in a file system is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// A file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link, and where it leads.
    Link(String),
    /// A pipe, a socket or a device.
    Other,
}

/// Whether a sandbox runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// It does.
    Running,
    /// It does not, and wakes with the next call. Local sandboxes keep their files meanwhile; those of containers are lost.
    Sleeping,
}
