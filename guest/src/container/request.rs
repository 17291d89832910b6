//! The JSON in frames: the handshake, requests and answers. Where a local guest gets a file descriptor, this protocol
//! uses a stream of the call.

use serde::{Deserialize, Serialize};

use koze_protocol::Change;
use koze_protocol::edit::Edited;
use koze_protocol::lines::LineRange;
use koze_protocol::tar::Contents;

use crate::message::{Fault, Place, Stat};

/// The version of the protocol.
pub const PROTOCOL: u32 = 2;
/// The maximum length of a request over all its pieces, in bytes.
pub const MAX_REQUEST: usize = 4 << 20;
/// The maximum of kept output of each stream of a program, in bytes, whatever the request says.
pub const LARGEST_OUTPUT: u32 = 8 << 20;

/// The first frame of the client.
#[derive(Deserialize)]
pub struct Hello {
    /// The token of this start of the container.
    pub token: String,
    /// The protocol version of the client.
    pub protocol: u32,
}

/// The first frame of the guest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Welcome {
    /// The protocol version of the guest. A client with another version gets it too, and then the connection ends.
    pub protocol: u32,
    /// The version of koze that the guest was built from.
    pub version: &'static str,
}

/// A request.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(remote = "Self", rename_all = "snake_case")]
pub enum Request {
    /// Run a program until it exits. Streams 1 and 2: its kept standard output and error. Returns [`Done::Ended`].
    Exec(Exec),
    /// Read part of a file. Stream 1: its bytes. Returns [`Done::Size`] of the whole file.
    Read(Read),
    /// Write a file. Stream 0: its bytes; the end of the stream puts the file in place. Returns [`Done::Size`], its new
    /// size.
    Write(Write),
    /// Replace text in a file. Stream 0: the old text, then the new one. Returns [`Done::Edited`].
    Edit(Edit),
    /// Read lines of a text file. Stream 1: their text, to be discarded if the file is binary. Returns [`Done::Lines`].
    ReadLines(ReadLines),
    /// List a directory. Stream 1: a JSON array of [`Entry`](crate::message::Entry). Returns [`Done::Nothing`].
    List(Place),
    /// Describe a path; a final link is not followed. Returns [`Done::Stat`].
    Stat(Place),
    /// Change the files. It is written without this name, such as `{"set_mode": …}`. Returns [`Done::Nothing`].
    #[serde(skip)]
    Change(Change),
    /// Serialize a file or tree in a format that only guests read. Stream 1: the serialized bytes. Returns
    /// [`Done::Nothing`].
    Pack(Pack),
    /// Create the serialized file or tree at a path that does not exist yet, completely or not at all. Stream 0: the
    /// serialized bytes. Returns [`Done::Size`], the total size of its files.
    Unpack(Place),
    /// Archive a directory. Stream 1: the archive in pieces, and its [`Trailer`](crate::archive::Trailer), which also says
    /// why it is not whole. Returns [`Done::Nothing`].
    Archive(Place),
    /// Create the files of an archive in a directory that exists. On failure, some of them may be left. Stream 0: the
    /// archive, without lengths and trailer. Returns [`Done::Extracted`].
    Extract(Place),
    /// Search the lines of a file, or of the files of a directory. Stream 1: [`Searched`] as JSON. Returns
    /// [`Done::Nothing`].
    ///
    /// [`Searched`]: koze_protocol::search::Searched
    Search(Search),
    /// Start a program that runs on. [`Done::Started`].
    Start(Start),
    /// Whether there is such a process. [`Done::Process`].
    Process(OneProcess),
    /// All processes, the oldest first. Stream 1: a JSON list of [`ProcessInfo`]. [`Done::Nothing`].
    Processes {},
    /// What a process writes, once there is something. Stream 1: its bytes. [`Done::Output`].
    ReadProcess(ReadProcess),
    /// Write to the standard input of a process. Stream 0: the bytes. [`Done::Taken`].
    WriteProcess(WriteProcess),
    /// Close the standard input of a process. [`Done::Nothing`].
    CloseProcess(OneProcess),
    /// Send a signal. [`Done::Nothing`].
    SignalProcess(SignalProcess),
    /// Set the size of a terminal. [`Done::Nothing`].
    ResizeProcess(ResizeProcess),
    /// Wait for the end of a process. [`Done::Exit`].
    WaitProcess(WaitProcess),
    /// Kill every process but the guest. Returns [`Done::Nothing`].
    KillAll {},
}

/// A program to run.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Exec {
    /// The program, resolved over `PATH`, and its arguments.
    pub argv: Vec<String>,
    /// The absolute path of its working directory.
    pub cwd: String,
    /// Variables that override the container's own.
    #[serde(default)]
    pub env: Vec<(String, String)>,
    /// The timeout in milliseconds. After it the program and its descendants are killed.
    pub timeout_ms: u64,
    /// How many bytes of each stream are kept, at most [`LARGEST_OUTPUT`].
    pub max_output: u32,
}

/// The part of a file to read.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Read {
    /// As in [`Place`].
    pub root: String,
    /// As in [`Place`].
    pub path: String,
    /// Its start, in bytes.
    pub offset: u64,
    /// Its maximum length, in bytes.
    pub limit: u64,
}

/// A file to write.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Write {
    /// As in [`Place`].
    pub root: String,
    /// As in [`Place`].
    pub path: String,
    /// Whether to append the bytes.
    #[serde(default)]
    pub append: bool,
    /// The size that the file must have for that; with 0, it must not exist. `None` for any file.
    #[serde(default)]
    pub offset: Option<u64>,
}

/// A text to replace.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Edit {
    /// As in [`Place`].
    pub root: String,
    /// As in [`Place`].
    pub path: String,
    /// The length of the old text, in bytes.
    pub old: u64,
    /// Whether to replace every occurrence.
    pub all: bool,
}

/// Lines of a file.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct ReadLines {
    /// As in [`Place`].
    pub root: String,
    /// As in [`Place`].
    pub path: String,
    /// Which lines.
    #[serde(flatten)]
    pub range: LineRange,
}

/// A file or tree to serialize.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Pack {
    /// As in [`Place`].
    pub root: String,
    /// As in [`Place`].
    pub path: String,
    /// An entry name to leave out at any depth: that of the copy, when a tree is copied into itself.
    pub except: String,
}

/// A search.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Search {
    /// As in [`Place`].
    pub root: String,
    /// As in [`Place`].
    pub path: String,
    /// What to search for.
    pub search: koze_protocol::search::Search,
}

/// A program that runs on.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Start {
    /// As in [`Exec`].
    pub argv: Vec<String>,
    /// As in [`Exec`].
    pub cwd: String,
    /// As in [`Exec`].
    #[serde(default)]
    pub env: Vec<(String, String)>,
    /// The size of its terminal; without one, it has pipes.
    pub terminal: Option<Size>,
    /// How many bytes of its output are kept.
    pub buffer: u64,
    /// Whether the oldest go when there are more. Otherwise the program waits.
    pub drop_oldest: bool,
    /// A text that [`ProcessInfo`] returns, of at most [`MAX_LABEL`] bytes.
    #[serde(default)]
    pub label: Option<String>,
}

/// The maximum length of the label of a process, in bytes.
pub const MAX_LABEL: usize = 64;

/// The size of a terminal.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Size {
    /// Its rows.
    pub rows: u16,
    /// Its columns.
    pub columns: u16,
}

/// A process.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct OneProcess {
    /// Its ID.
    pub id: String,
}

/// What to read of a process.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct ReadProcess {
    /// Its ID.
    pub id: String,
    /// Where it begins.
    pub cursor: u64,
    /// How long it is at most, in bytes.
    pub limit: u64,
    /// How long to wait for something, in milliseconds.
    pub wait_ms: u64,
    /// The signal that the process gets if the call is canceled, or the connection ends, before the answer.
    #[serde(default)]
    pub abandoned: Option<i32>,
}

/// What to write to a process.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct WriteProcess {
    /// Its ID.
    pub id: String,
    /// How long to wait for it to be read, in milliseconds.
    pub wait_ms: u64,
}

/// A signal to a process.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct SignalProcess {
    /// Its ID.
    pub id: String,
    /// The signal's number.
    pub signal: i32,
}

/// The size of a process's terminal.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct ResizeProcess {
    /// Its ID.
    pub id: String,
    /// As in [`Size`].
    pub rows: u16,
    /// As in [`Size`].
    pub columns: u16,
}

/// How long to wait for a process.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct WaitProcess {
    /// Its ID.
    pub id: String,
    /// In milliseconds.
    pub timeout_ms: u64,
    /// As in [`ReadProcess`].
    #[serde(default)]
    pub abandoned: Option<i32>,
}

/// The answer to a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// The operation succeeded.
    Ok(Done),
    /// The operation failed.
    Failed(Fault),
}

/// The result of an operation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Done {
    /// A program exited.
    Ended {
        /// Its exit code: 128 + n after signal n, 124 after a timeout.
        exit_code: i32,
        /// Whether it timed out.
        timed_out: bool,
    },
    /// The size of a file or tree.
    Size {
        /// In bytes.
        size: u64,
    },
    /// The result of an edit.
    Edited(Edited),
    /// What lines of a file are like.
    Lines {
        /// How many characters they have.
        chars: u64,
        /// Whether the file has fewer lines than the first one.
        past_end: bool,
        /// Whether the file is binary.
        binary: bool,
        /// The size of the file, in bytes.
        size: u64,
    },
    /// A process runs.
    Started {
        /// Its ID.
        id: String,
    },
    /// A process is there.
    Process(ProcessInfo),
    /// What a process has written.
    Output {
        /// The cursor after it.
        next: u64,
        /// How many bytes before it are not kept any more.
        dropped: u64,
        /// Of which stream, and how long, its parts are.
        chunks: Vec<(u8, u64)>,
        /// Its exit code, where it has ended and all was read that it wrote before.
        exit: Option<i32>,
    },
    /// What was written to a process.
    Taken {
        /// In bytes.
        taken: u64,
    },
    /// A process has ended, or the time is up.
    Exit {
        /// Its exit code, where it has ended.
        exit: Option<i32>,
    },
    /// What is at a place.
    Stat(Stat),
    /// What an archive contained.
    Extracted(Contents),
    /// No result.
    Nothing {},
}

/// An entry of the list of a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Listed<'a> {
    /// Its name. Bytes that are not UTF-8 are replaced by U+FFFD.
    pub name: &'a str,
    /// Its metadata, in the same object.
    #[serde(flatten)]
    pub stat: &'a Stat,
}

/// A process that runs or is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ProcessInfo {
    /// Its ID.
    pub id: String,
    /// Its program, as it was given.
    pub program: String,
    /// Whether it has a terminal.
    pub terminal: bool,
    /// Its exit code, where it has ended.
    pub exit: Option<i32>,
    /// As in [`Start`].
    pub label: Option<String>,
}

mod changes;
#[cfg(test)]
mod tests;
