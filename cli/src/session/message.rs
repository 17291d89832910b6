//! The messages between commands and the supervisor: one request and its answers per connection.

use std::io;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use koze_core::files::Existing;
use koze_core::files::http::Conditions;
use koze_core::sandbox::Stat;
use koze_core::sandbox::process::{Chunk, Stream};
use koze_core::tool::{Input, Reply};
use koze_core::{Error, Profiles};
use serde::{Deserialize, Serialize};

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
