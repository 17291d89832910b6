//! The JSON in frames: the handshake, requests and answers. Where a local guest gets a file descriptor, this protocol
//! uses a stream of the call.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

use koze_protocol::Change;
use koze_protocol::edit::Edited;
use koze_protocol::operation::framed::{Edit, Write, WriteProcess};
use koze_protocol::operation::{
    Ended, Exec, OneProcess, Pack, ProcessInfo, Read, ReadLines, ReadProcess, ResizeProcess, SearchFiles,
    SignalProcess, Start, Started, Taken, WaitProcess,
};
use koze_protocol::tar::Contents;

use crate::message::{Fault, Place, Stat};

/// The version of the protocol.
pub const PROTOCOL: u32 = 2;
/// The maximum length of a request over all its pieces, in bytes.
pub const MAX_REQUEST: usize = 4 << 20;
/// The maximum of kept output of each stream of a program, in bytes, whatever the request says.
pub const LARGEST_OUTPUT: u32 = 8 << 20;

/// The first frame of the client.
#[derive(Serialize, Deserialize)]
pub struct Hello {
    /// The token of this start of the container.
    pub token: String,
    /// The protocol version of the client.
    pub protocol: u32,
}

/// The first frame of the guest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Welcome {
    /// The protocol version of the guest. A client with another version gets it too, and then the connection ends.
    pub protocol: u32,
    /// The version of koze that the guest was built from.
    pub version: Cow<'static, str>,
}

/// A request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(remote = "Self", rename_all = "snake_case")]
pub enum Request {
    /// Run a program until it exits. Streams 1 and 2: its kept standard output and error. Returns [`Done::Exited`].
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
    Search(SearchFiles),
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
    /// Listen on a port of 127.0.0.1 in the container, for [`Accept`](Self::Accept), as long as the guest runs. Returns
    /// [`Done::Nothing`].
    Listen(Port),
    /// Wait for a program that connects to such a port. Stream 1: what the program sends. Stream 0: what it receives. Stream 2
    /// has no bytes, and ends once the program has connected. The end of a stream ends this direction only; the call
    /// is answered when both have ended. Returns [`Done::Nothing`].
    Accept(Port),
    /// Connect to a server on a port of 127.0.0.1 or `::1` in the container. The streams are those of
    /// [`Accept`](Self::Accept): stream 1 comes from the server. Returns [`Done::Nothing`].
    Connect(Port),
    /// Kill every process but the guest. Returns [`Done::Nothing`].
    KillAll {},
}

/// A port of the container's loopback interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Port {
    /// From 1 to 65535.
    pub port: u16,
}

/// The answer to a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer<T = Done> {
    /// The operation succeeded.
    Ok(T),
    /// The operation failed.
    Failed(Fault),
}

/// The result of an operation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Done {
    /// A program exited.
    Exited(Exited),
    /// The size of a file or tree.
    Size(Size),
    /// The result of an edit.
    Edited(Edited),
    /// What lines of a file are like.
    Lines(Lines),
    /// A process runs.
    Started(Started),
    /// A process is there.
    Process(ProcessInfo),
    /// What a process has written.
    Output(Output),
    /// What was written to a process.
    Taken(Taken),
    /// A process has ended, or the time is up.
    Exit(Ended),
    /// What is at a place.
    Stat(Stat),
    /// What an archive contained.
    Extracted(Contents),
    /// No result.
    Nothing {},
}

/// The end of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exited {
    /// Its exit code: 128 + n after signal n, 124 after a timeout.
    pub exit_code: i32,
    /// Whether it timed out.
    pub timed_out: bool,
}

/// The size of a file or tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Size {
    /// In bytes.
    pub size: u64,
}

/// Lines of a file, without their text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lines {
    /// How many characters they have.
    pub chars: u64,
    /// Whether the file has fewer lines than the first one.
    pub past_end: bool,
    /// Whether the file is binary.
    pub binary: bool,
    /// The size of the file, in bytes.
    pub size: u64,
}

/// Output of a process, without its bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Output {
    /// The cursor after it.
    pub next: u64,
    /// How many bytes before it are not kept any more.
    pub dropped: u64,
    /// The stream and the length of each of its parts.
    pub chunks: Vec<(u8, u64)>,
    /// Its exit code, if it has ended and everything that it wrote before was read.
    pub exit: Option<i32>,
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

mod changes;
#[cfg(test)]
mod tests;
