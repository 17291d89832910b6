//! The operations that a sandbox provider implements. All tools are built on them.

mod ended;
pub mod process;

use std::future::Future;
use std::time::Duration;

use koze_protocol::Misfit;
pub use koze_protocol::edit::{
    Edit, Edited, MAX_EDIT_TEXT, MAX_EDITED, MAX_NAMED_LINES, MAX_NEAREST_TEXT, NearestLine, Rejected,
};
pub use koze_protocol::lines::{InvalidRange, LineRange, LineReader, Lines, MAX_CHARS, MAX_UNSIZED};
pub use koze_protocol::search::{End, Include, Match, Search, Searched};
pub use koze_protocol::{Change, Entry, Kind, Stat};

use crate::archive::{self, Bytes, Contents, Tar};
use crate::error::{Code, Error, Result};
use crate::maybe_send::{MaybeSend, MaybeSync};
use crate::search;
use crate::transfer::pieces;

pub use crate::path::Place;

pub use self::ended::EndedPrograms;
pub use self::process::{Process, ProcessId, ProcessInfo, ProcessOutput, Program};

/// A sandbox.
///
/// Paths are absolute. They are resolved inside the sandbox, following symbolic links, and confined to a root. Writes to the
/// same path are serialized, and so are edits; a failed one leaves the old file unchanged. A clone refers to the same
/// sandbox.
pub trait Sandbox: Clone + MaybeSend + MaybeSync + 'static {
    /// The type of its processes.
    type Process: Process;

    /// Returns what the sandbox can do. Everything else fails with [`Code::Unsupported`].
    fn capabilities(&self) -> Capabilities;

    /// Runs a program until it exits or its timeout expires.
    fn exec(&self, command: Command) -> impl Future<Output = Result<Output>> + MaybeSend;

    /// Starts a program that keeps running after this call, as a process. At most 64 run in a sandbox at once.
    ///
    /// # Errors
    /// As [`exec`](Self::exec); and [`Code::Unavailable`] if too many run, or if their
    /// buffers exceed 32 MiB in total.
    fn start(&self, program: Program) -> impl Future<Output = Result<Self::Process>> + MaybeSend;

    /// Returns the process with this ID, if it runs or is kept. Does not start the sandbox.
    fn process(&self, id: &ProcessId) -> impl Future<Output = Result<Option<Self::Process>>> + MaybeSend;

    /// Lists the processes that run and those that are kept, the oldest first. Does not start the sandbox.
    fn processes(&self) -> impl Future<Output = Result<Vec<ProcessInfo>>> + MaybeSend;

    /// Reads at most `limit` bytes of a file from `offset`. Returns fewer only at the end of the file.
    fn read(
        &self,
        path: Place<'_>,
        offset: u64,
        limit: u64,
    ) -> impl Future<Output = Result<Piece>> + MaybeSend;

    /// Writes a file and creates missing parent directories. Returns the file's size in bytes.
    fn write(
        &self,
        path: Place<'_>,
        bytes: Vec<u8>,
        how: Write,
    ) -> impl Future<Output = Result<u64>> + MaybeSend;

    /// Writes the next piece of a file that several calls write, as [`Write::At`] does. Returns the file's size.
    ///
    /// # Errors
    /// [`Code::Unavailable`] if the file is not what the earlier calls wrote, because the container restarted in between.
    /// Remove the file then.
    fn write_at(
        &self,
        path: Place<'_>,
        offset: u64,
        bytes: Vec<u8>,
    ) -> impl Future<Output = Result<u64>> + MaybeSend {
        let end = offset.saturating_add(bytes.len() as u64);
        async move {
            let size = self.write(path, bytes, Write::At(offset)).await?;
            // A guest or class that is older than the offset has appended to whatever was there.
            if size == end { Ok(size) } else { Err(lost(path.path)) }
        }
    }

    /// Replaces a text in a file atomically, and keeps the file's permission bits and all other bytes.
    ///
    /// # Errors
    /// [`Code::InvalidInput`] if the text to replace is empty; [`Code::TooLarge`] if it or its replacement is longer than
    /// [`MAX_EDIT_TEXT`], or the file is larger than [`MAX_EDITED`] before or after the edit.
    fn edit(&self, path: Place<'_>, edit: &Edit) -> impl Future<Output = Result<Edited>> + MaybeSend;

    /// Reads lines of a text file. Reads the file from its start to the end of the range, in memory that does not depend
    /// on its size or on the length of its lines. Of a file that grows meanwhile, reads no more than its size was.
    ///
    /// # Errors
    /// [`Code::InvalidInput`] if the range is not valid; see [`InvalidRange`].
    fn read_lines(
        &self,
        path: Place<'_>,
        range: LineRange,
    ) -> impl Future<Output = Result<Lines>> + MaybeSend;

    /// Searches the lines of a file, or of the files of a directory without following links below it. Dropping the future
    /// stops the search.
    ///
    /// By default the search lists every directory and reads every file by the other operations. Providers can override it
    /// with a faster one, which finds the same.
    ///
    /// # Errors
    /// [`Code::InvalidInput`] for an invalid pattern, and the errors of the start of the search.
    fn search(&self, path: Place<'_>, search: &Search) -> impl Future<Output = Result<Searched>> + MaybeSend {
        search::by_operations(self, path, search)
    }

    /// Returns a directory with its contents as a tar archive. Sockets, pipes and devices are left out. Dropping the stream
    /// ends the work.
    ///
    /// By default every directory is listed, and every file read, by the operations above. Providers can override it with a
    /// faster one.
    #[doc(hidden)]
    fn archive(&self, path: Place<'_>) -> Tar {
        archive::pack(self.clone(), path.path.to_owned())
    }

    /// Creates the files of such an archive in a directory that exists, and returns what it contained. A failed call may leave
    /// some of them.
    #[doc(hidden)]
    fn extract(&self, path: Place<'_>, tar: Bytes<'_>) -> impl Future<Output = Result<Contents>> + MaybeSend {
        archive::unpack(self, path.path, tar)
    }

    /// Lists a directory in no particular order, without `.` and `..`.
    fn list(&self, path: Place<'_>) -> impl Future<Output = Result<Vec<Entry>>> + MaybeSend;

    /// Returns the metadata of a path. Does not follow a symbolic link in the last component.
    fn stat(&self, path: Place<'_>) -> impl Future<Output = Result<Stat>> + MaybeSend;

    /// Changes the files. Each of the changes below has its own function.
    fn change(&self, change: Change) -> impl Future<Output = Result<()>> + MaybeSend;

    /// Creates a directory and its parents. Succeeds if the directory already exists.
    fn make_dir(&self, path: Place<'_>) -> impl Future<Output = Result<()>> + MaybeSend {
        self.change(Change::MakeDir(path.owned()))
    }

    /// Creates a symbolic link to `target`, which may be any text and need not exist.
    fn make_link(&self, path: Place<'_>, target: &str) -> impl Future<Output = Result<()>> + MaybeSend {
        let koze_protocol::Place { root, path } = path.owned();
        self.change(Change::MakeLink { root, path, target: target.to_owned() })
    }

    /// Sets the permission bits of a file or directory.
    fn set_mode(&self, path: Place<'_>, mode: u32) -> impl Future<Output = Result<()>> + MaybeSend {
        let koze_protocol::Place { root, path } = path.owned();
        self.change(Change::SetMode { root, path, mode })
    }

    /// Removes a file, a symbolic link, or a directory with its contents. Does not follow a symbolic link.
    fn remove(&self, path: Place<'_>) -> impl Future<Output = Result<()>> + MaybeSend {
        self.change(Change::Remove(path.owned()))
    }

    /// Renames a file or directory. Replaces an existing file at `to` atomically.
    fn rename(&self, from: Place<'_>, to: Place<'_>) -> impl Future<Output = Result<()>> + MaybeSend {
        self.change(Change::Rename { from: from.owned(), to: to.owned() })
    }

    /// Copies a file, or a directory with its contents, to a path of another sandbox that does not exist yet. Returns the
    /// bytes of all files. A failed copy may leave a partial result at the target.
    ///
    /// By default the copy uses the operations above. Providers can override it with a faster one.
    fn copy_to<T: Sandbox>(
        &self,
        from: Place<'_>,
        to: &T,
        target: Place<'_>,
    ) -> impl Future<Output = Result<u64>> + MaybeSend {
        pieces::copy(self, from, to, target)
    }

    /// Records a staging path. If the process that runs the sandbox is killed before
    /// [`forget_staging`](Self::forget_staging), the next start of the sandbox removes what is at the path.
    ///
    /// Sandboxes whose files do not outlive them record nothing.
    fn record_staging(&self, path: &str) -> impl Future<Output = Result<()>> + MaybeSend {
        let _ = path;
        async { Ok(()) }
    }

    /// Deletes the record of [`record_staging`](Self::record_staging). Keeps what is at the path.
    fn forget_staging(&self, path: &str) -> impl Future<Output = Result<()>> + MaybeSend {
        let _ = path;
        async { Ok(()) }
    }

    /// Returns the programs that ended when the sandbox slept or restarted, the first time that it is asked after that. Ask
    /// after a call that runs a program: it wakes the sandbox.
    fn take_ended_programs(&self) -> impl Future<Output = Option<EndedPrograms>> + MaybeSend {
        async { None }
    }

    /// Exposes a port and returns its URL.
    fn expose(&self, port: u16) -> impl Future<Output = Result<String>> + MaybeSend;

    /// Returns whether the sandbox runs or sleeps.
    fn status(&self) -> impl Future<Output = Result<Status>> + MaybeSend;

    /// Stops the sandbox and deletes its files.
    fn destroy(&self) -> impl Future<Output = Result<()>> + MaybeSend;
}

/// Returns the error for a piece that does not fit the file at a path.
#[doc(hidden)]
pub fn misfit(why: Misfit, path: &str) -> Error {
    Error::new(why.code(), why.message(path))
}

/// Returns the error for a file or tree that a restart of the container has interrupted.
#[doc(hidden)]
pub fn lost(path: &str) -> Error {
    misfit(Misfit::Lost, path)
}

/// Returns the error for an edit of the file at a path that was rejected.
#[doc(hidden)]
pub fn rejected(why: Rejected, path: &str) -> Error {
    let code = if why == Rejected::EmptyOld { Code::InvalidInput } else { Code::TooLarge };
    Error::new(code, why.message(path))
}

impl From<InvalidRange> for Error {
    fn from(why: InvalidRange) -> Self {
        Error::new(Code::InvalidInput, why.message())
    }
}

/// What a sandbox can do in addition to storing files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Capabilities {
    /// Whether it can run programs.
    pub exec: bool,
    /// Whether its ports can be exposed.
    pub expose: bool,
}

/// A program to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// The program and its arguments. The program is searched for on the sandbox's `PATH`.
    pub argv: Vec<String>,
    /// The working directory, as an absolute path.
    pub working_dir: String,
    /// Environment variables in addition to the sandbox's own.
    pub env: Vec<(String, String)>,
    /// The timeout. When it expires, the process group is killed, and the output up to then is kept.
    pub timeout: Duration,
    /// The maximum number of bytes kept of each stream: the first and the last ones, with a marker in between.
    pub max_output: usize,
}

/// The result of a program.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Output {
    /// Its standard output.
    pub stdout: Vec<u8>,
    /// Its standard error.
    pub stderr: Vec<u8>,
    /// Its exit code; 128 + n after signal n, 124 after a timeout.
    pub exit_code: i32,
    /// Whether the timeout expired.
    pub timed_out: bool,
}

/// A part of a file.
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
    /// Replaces the file atomically and keeps its permission bits.
    Replace,
    /// Appends the bytes in one step.
    Append,
    /// Appends the bytes in one step to a file of exactly this size. With 0, creates the file, which must not exist.
    ///
    /// [`Sandbox::write_at`] also notices where a guest that is older than this has appended to another file.
    At(u64),
}

/// The disk of a sandbox that its object saved before the container slept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(rename_all = "camelCase")]
pub struct SavedDisk {
    /// Its size, as the platform counts it.
    #[cfg_attr(test, ts(type = "number"))]
    pub bytes: u64,
    /// When it was saved, in milliseconds since 1970.
    #[cfg_attr(test, ts(type = "number"))]
    pub saved_at: u64,
}

/// Whether a sandbox is running or asleep.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[cfg_attr(test, derive(ts_rs::TS))]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// It is running.
    Running,
    /// It is asleep and wakes with the next call. Local sandboxes keep their files; files in containers are deleted.
    Sleeping,
}
