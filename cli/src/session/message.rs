//! The messages between commands and the supervisor: one request and its answers per connection.

use std::io;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use koze_core::files::Existing;
use koze_core::files::http::Conditions;
use koze_core::http;
use koze_core::sandbox::Stat;
use koze_core::sandbox::process::{Chunk, Stream};
use koze_core::tool::{Input, Reply};
use koze_core::{Error, Profiles};
use serde::{Deserialize, Serialize};

use crate::provider::Measured;

/// A request of a command.
#[derive(Debug, Serialize, Deserialize)]
pub struct Request<A> {
    /// The requesting program. A different one must not answer, because the messages may have another meaning in it.
    pub program: String,
    /// The request: an [`Ask`], which the supervisor parses only if it runs the same program.
    pub ask: A,
}

/// A request.
#[derive(Debug, Serialize, Deserialize)]
pub enum Ask {
    /// A request with a single answer.
    Do(Act),
    /// Open a file.
    File(FileRequest),
    /// Copy a tree.
    Tree(TreeRequest),
    /// Run a program.
    Exec(ExecRequest),
}

/// What to run.
#[derive(Debug, Serialize, Deserialize)]
pub struct ExecRequest {
    /// The current profiles of the project.
    pub profiles: Profiles,
    /// The sandbox, which must exist.
    pub sandbox: String,
    /// The program and its arguments.
    pub argv: Vec<String>,
    /// Environment variables in addition to the sandbox's own.
    pub env: Vec<(String, String)>,
    /// The working directory, as an absolute path.
    pub working_dir: String,
    /// What becomes of its standard streams.
    pub streams: ExecStreams,
    /// How long it may run.
    pub timeout: Option<Duration>,
}

/// The standard streams of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum ExecStreams {
    /// Three pipes, which the client gets.
    Pipes,
    /// A terminal, which the client gets.
    Terminal {
        /// The number of rows.
        rows: u16,
        /// The number of columns.
        columns: u16,
    },
    /// Its output is kept for `koze logs`. It goes on without the client.
    Kept,
}

/// What a client tells while its program runs.
#[derive(Debug, Serialize, Deserialize)]
pub enum Tell {
    /// Send a signal to the program.
    Signal {
        /// The signal's number.
        number: u8,
    },
    /// Nobody reads a stream of the program any more.
    Closed {
        /// Whether standard error.
        stderr: bool,
    },
}

/// A request with a single answer.
#[derive(Debug, Serialize, Deserialize)]
pub enum Act {
    /// Call a tool.
    Call {
        /// The current profiles of the project.
        profiles: Profiles,
        /// The toolset, if it is not the project's default.
        toolset: Option<String>,
        /// The tool.
        tool: String,
        /// The tool's input.
        input: Input,
        /// Whether to report what its programs print, with [`Answer::Printed`].
        progress: bool,
        /// The name of the client, for the journal. Without it, the call is koze's own and is not recorded.
        client: Option<String>,
    },
    /// Copy a file or tree from one sandbox to another.
    Copy {
        /// The current profiles of the project.
        profiles: Profiles,
        /// The sandbox and the path of the file or tree.
        from: (String, String),
        /// The sandbox and the path of the copy.
        to: (String, String),
    },
    /// Destroy a sandbox.
    Destroy {
        /// The sandbox's name.
        name: String,
    },
    /// Answer an HTTP request for the sandboxes, with [`Answer::Responded`].
    Http {
        /// The current profiles of the project.
        profiles: Profiles,
        /// The request.
        request: http::Request,
    },
    /// Measure the sandboxes.
    Measure,
    /// Report the port of previews, with [`Answer::PreviewPort`].
    PreviewPort,
    /// Put a sandbox to sleep.
    Sleep {
        /// The sandbox's name.
        name: String,
    },
    /// List the processes of a sandbox.
    Processes {
        /// The sandbox's name.
        name: String,
    },
    /// Send a signal to a process of a sandbox.
    Signal {
        /// The sandbox's name.
        name: String,
        /// The ID of the process, or its beginning.
        id: String,
        /// The signal's number.
        number: u8,
    },
    /// Report the output of a process of a sandbox, with [`Answer::Printed`].
    Logs {
        /// The sandbox's name.
        name: String,
        /// The ID of the process, or its beginning; else the process that was started last.
        id: Option<String>,
        /// Whether to go on until it ends.
        follow: bool,
    },
    /// Exit.
    Stop,
}

/// What to do with a file.
#[derive(Debug, Serialize, Deserialize)]
pub struct FileRequest {
    /// The current profiles of the project.
    pub profiles: Profiles,
    /// The sandbox.
    pub sandbox: String,
    /// The path of the file.
    pub path: String,
    /// What to do.
    pub access: Access,
}

/// What to do with a file.
#[derive(Debug, Serialize, Deserialize)]
pub enum Access {
    /// Read it.
    Read,
    /// Write it. Creates the sandbox on first use.
    Write {
        /// The conditions that it must meet.
        conditions: Conditions,
        /// The permission bits that it gets if it is new.
        mode: Option<u32>,
    },
}

/// What to copy.
#[derive(Debug, Serialize, Deserialize)]
pub struct TreeRequest {
    /// The current profiles of the project.
    pub profiles: Profiles,
    /// The sandbox.
    pub sandbox: String,
    /// The path of the tree.
    pub path: String,
    /// Whether it comes into the sandbox.
    pub way: Way,
}

/// Where a tree goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Way {
    /// Out of the sandbox.
    Out,
    /// Into the sandbox, which is created on first use.
    In,
    /// Out of the sandbox, as an archive: `provider::archives` reads the stream.
    ArchiveOut,
    /// Into the sandbox, as an archive that koze has written.
    ArchiveIn(Existing),
    /// As [`Way::In`], but as an archive that koze has written.
    NewArchive,
}

/// An answer of the supervisor: first [`Answer::Begun`], then any number of [`Answer::Printed`], then one of the others.
#[derive(Debug, Serialize, Deserialize)]
pub enum Answer {
    /// The request was started. If the connection ends after this, its outcome is unknown.
    Begun,
    /// The supervisor runs another version of the program and exits. Nothing was done.
    Stale,
    /// A program of the call has printed something. The other answers follow.
    Printed {
        /// Whether to standard error.
        stderr: bool,
        /// What, as base64.
        data: String,
    },
    /// The reply of a tool, or its error.
    Replied(std::result::Result<Reply, Error>),
    /// A file is open for reading, and follows as a descriptor once the client has confirmed.
    Reading(Stat),
    /// The same for writing.
    Writing {
        /// How many bytes the sandbox has room for.
        room: u64,
    },
    /// A file was written.
    Wrote {
        /// Its metadata.
        stat: Stat,
        /// Whether it did not exist before.
        is_new: bool,
    },
    /// The stream of a tree follows as a descriptor once the client has confirmed.
    Tree,
    /// A directory was created from an archive.
    Extracted {
        /// Whether there was none before.
        is_new: bool,
    },
    /// A program runs. Its streams follow as descriptors once the client has confirmed.
    Attached,
    /// A program runs, and goes on without the client.
    Detached {
        /// The ID of its process.
        id: String,
    },
    /// A program could not be started, although its sandbox runs.
    NotStarted(Error),
    /// A program has ended.
    Exited {
        /// Its exit code; 124 after its time was up.
        code: i32,
        /// Why it was killed, if its exit code does not tell.
        note: Option<String>,
    },
    /// The response to an HTTP request.
    Responded {
        /// The status.
        status: u16,
        /// The header `Allow`.
        allow: Option<String>,
        /// The body, or `None` if events follow, and then [`Answer::Done`].
        json: Option<String>,
    },
    /// A server-sent event of the response.
    Event(String),
    /// What the running sandboxes use.
    Measured(Vec<Measured>),
    /// The port on the loopback interface at which previews are served, if they are.
    PreviewPort(Option<u16>),
    /// The processes of a sandbox, oldest first.
    Processes(Vec<http::ProcessEntry>),
    /// A file does not meet the conditions of the request.
    Unmet,
    /// The request succeeded.
    Done,
    /// The request failed.
    Failed(Error),
}

impl Answer {
    /// Reports output of a program.
    pub(super) fn printed(chunk: Chunk) -> Self {
        Answer::Printed { stderr: chunk.stream == Stream::Stderr, data: STANDARD.encode(chunk.bytes) }
    }
}

/// Returns the output that [`Answer::Printed`] reports.
///
/// # Errors
/// Returns an error if the data is not base64.
pub(super) fn decode_output(stderr: bool, data: &str) -> io::Result<Chunk> {
    let stream = if stderr { Stream::Stderr } else { Stream::Stdout };
    let bytes = STANDARD.decode(data).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
    Ok(Chunk { stream, bytes })
}
