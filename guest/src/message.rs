//! The messages between host and guest, and their encoding: a length of four bytes (little-endian), then the call
//! number and the message as [postcard](https://docs.rs/postcard).

use std::io;
use std::net::SocketAddr;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use koze_protocol::Change;
use koze_protocol::search::{Search, Searched};
use koze_protocol::tar::Contents;
pub use koze_protocol::{Code, Entry, Kind, Place, Stat};

/// The maximum length of a message in bytes.
pub const MAX_MESSAGE: usize = 64 << 20;

/// A request of the host. Each has a number, and gets one answer with the same number unless stated otherwise.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Request {
    /// Run a program. Two descriptors are passed with it, for its standard output and standard error. Returns
    /// [`Answer::Ended`].
    Exec {
        /// The program, resolved over the `PATH` in `env`, and its arguments.
        argv: Vec<String>,
        /// Its working directory.
        cwd: String,
        /// Its complete environment.
        env: Vec<(String, String)>,
    },
    /// Kill the program of the call with this number and its descendants, or stop the work on another request. Gets no
    /// answer.
    Kill {
        /// The number of its request.
        exec: u64,
    },
    /// Start a process. Three descriptors are passed with the request, for its standard input, output and error.
    /// Returns [`Answer::Done`] once it runs, and later [`Answer::Ended`] with the other number.
    Start {
        /// As in [`Request::Exec`].
        argv: Vec<String>,
        /// As in [`Request::Exec`].
        cwd: String,
        /// As in [`Request::Exec`].
        env: Vec<(String, String)>,
        /// Whether its standard input is a terminal, which becomes its controlling terminal.
        terminal: bool,
        /// The number of the answer that reports its end.
        ends: u64,
    },
    /// Send a signal to the process group of a program; SIGKILL goes to all its descendants. Returns [`Answer::Done`],
    /// even if it has ended.
    Signal {
        /// The number of the answer that reports its end.
        ends: u64,
        /// The signal.
        signal: i32,
    },
    /// Open a pseudoterminal. Returns [`Answer::Terminal`] with the descriptors of both sides.
    Terminal {
        /// Its rows.
        rows: u16,
        /// Its columns.
        columns: u16,
    },
    /// Kill every process but the guest. Returns [`Answer::Done`].
    KillAll,
    /// Open a file for reading. Returns [`Answer::Opened`] with the descriptor.
    Read(Place),
    /// Open a file for appending, and create it if it does not exist. Returns [`Answer::Opened`] or [`Answer::Made`]
    /// with the descriptor.
    Append(Place),
    /// Create a staging file next to the path. Returns [`Answer::Opened`] with the descriptor.
    Create(Place),
    /// Rename a staging file to its path, or keep a file that an append created. Returns [`Answer::Done`].
    Commit {
        /// The number of the [`Request::Create`], or of the [`Request::Append`] that created the file.
        create: u64,
    },
    /// Remove the new file. Gets no answer.
    Abort {
        /// The same number.
        create: u64,
    },
    /// List one page of a directory, starting at a position, 0 at first. Returns [`Answer::Listed`].
    List(Place, i64),
    /// Describe a path. Returns [`Answer::Found`].
    Stat(Place),
    /// Change the files. Returns [`Answer::Done`].
    Change(Change),
    /// Serialize a file or tree to the descriptor that is passed with the request. Returns [`Answer::Done`].
    Pack {
        /// The file or tree.
        place: Place,
        /// An entry name to leave out.
        except: String,
    },
    /// Create the serialized file or tree, read from the descriptor that is passed with the request. Returns
    /// [`Answer::Unpacked`].
    Unpack {
        /// The path to create, which must not exist.
        place: Place,
        /// The maximum total size in bytes.
        most: u64,
    },
    /// Archive a directory to the descriptor that is passed with the request. Returns [`Answer::Done`].
    Archive(Place),
    /// Hand over the files of a directory as descriptors: see [`Handed`](crate::archive::Handed). Two descriptors are passed with the
    /// request: the socket for the messages, and the list of what is [`Known`](crate::archive::Known), as JSON, one per line. Returns
    /// [`Answer::Done`].
    HandOver(Place),
    /// Create the files of an archive, read from the descriptor that is passed with the request, in a directory. Returns
    /// [`Answer::Extracted`].
    Extract {
        /// The directory.
        place: Place,
        /// The maximum total size in bytes.
        most: u64,
    },
    /// Search the lines of a file, or of the files of a directory. Returns [`Answer::Searched`].
    Search(Place, Search),
    /// Listen on an address of the sandbox's network. Returns [`Answer::Opened`] with the socket.
    Listen(SocketAddr),
    /// Connect to such an address. Returns [`Answer::Opened`] with a socket that may still be connecting.
    Connect(SocketAddr),
}

/// An answer of the guest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    /// The sandbox is ready. Sent once, with number 0.
    Ready,
    /// A program exited: its exit code, or 128 + the number of the signal that killed it.
    Ended(i32),
    /// A file or socket was opened; its descriptor is passed with the answer.
    Opened,
    /// The same for a file that did not exist before: the host must follow with [`Request::Commit`] or
    /// [`Request::Abort`].
    Made,
    /// The terminal is open. The descriptor of the controlling side is passed first, then that of programs.
    Terminal,
    /// The operation succeeded.
    Done,
    /// The file or tree was created; the total size of its files in bytes.
    Unpacked(u64),
    /// One page of a directory, and the position of the next page, if any.
    Listed(Vec<Entry>, Option<i64>),
    /// The description of the path.
    Found(Stat),
    /// What was found.
    Searched(Searched),
    /// The files of an archive were created; what it contained.
    Extracted(Contents),
    /// The operation failed.
    Failed(Fault),
}

/// An error.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// Its code.
    pub why: Code,
    /// Its message.
    pub text: String,
}

impl Fault {
    /// Creates an error.
    pub fn new(why: Code, text: impl Into<String>) -> Self {
        Fault { why, text: text.into() }
    }
}

/// Encodes a message with its length prefix.
///
/// # Errors
/// If it is longer than [`MAX_MESSAGE`].
pub fn encode<T: Serialize>(number: u64, message: &T) -> io::Result<Vec<u8>> {
    let bytes = postcard::to_extend(&(number, message), vec![0; 4]).map_err(io::Error::other)?;
    encode_length(bytes)
}

fn encode_length(mut bytes: Vec<u8>) -> io::Result<Vec<u8>> {
    let length = bytes.len() - 4;
    let Some(prefix) = u32::try_from(length).ok().filter(|_| length <= MAX_MESSAGE) else {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the message is too long"));
    };
    bytes[..4].copy_from_slice(&prefix.to_le_bytes());
    Ok(bytes)
}

/// Reads the length prefix of a message.
///
/// # Errors
/// If it is incomplete or greater than [`MAX_MESSAGE`].
pub fn length(bytes: &[u8]) -> io::Result<usize> {
    let prefix: [u8; 4] = bytes.get(..4).and_then(|four| four.try_into().ok()).ok_or_else(invalid_message)?;
    let length = u32::from_le_bytes(prefix) as usize;
    if length > MAX_MESSAGE { Err(invalid_message()) } else { Ok(length) }
}

/// Decodes the call number and the message from the bytes after the length prefix.
///
/// # Errors
/// If they are invalid.
pub fn decode<T: DeserializeOwned>(body: &[u8]) -> io::Result<(u64, T)> {
    postcard::from_bytes(body).map_err(|_| invalid_message())
}

fn invalid_message() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the data on the socket is not a message")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back() {
        let request = Request::Change(Change::Remove(Place { root: "/".into(), path: "/a\nb".into() }));
        let bytes = encode(7, &request).unwrap();
        assert_eq!(length(&bytes).unwrap(), bytes.len() - 4);
        assert_eq!(decode::<Request>(&bytes[4..]).unwrap(), (7, request));
    }

    #[test]
    fn nonsense_is_an_error() {
        assert!(length(b"abc").is_err());
        assert!(length(&u32::MAX.to_le_bytes()).is_err());
        assert!(decode::<Request>(&[0xff; 40]).is_err());
        assert!(decode::<Request>(&[]).is_err());
    }
}
