//! What host and guest say to each other, and how it is put into bytes: a length of four bytes (little-endian), then
//! [postcard](https://docs.rs/postcard) of the call's number and the message.

use std::io;
use std::net::SocketAddr;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

pub use koze_protocol::{Code, Entry, Kind, Place, Stat};

/// The longest message, in bytes.
pub const LONGEST: usize = 64 << 20;

/// What the host asks for. Each has a number, and one answer with the same number unless it says otherwise.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Request {
    /// Run a program; two descriptors come along, for its standard output and standard error. [`Answer::Ended`].
    Exec {
        /// The program, looked for on `PATH` of `env`, and its arguments.
        argv: Vec<String>,
        /// Where it starts.
        cwd: String,
        /// All its variables.
        env: Vec<(String, String)>,
    },
    /// Kill the program of the call with this number, and all that came of it; or what works on another request. No
    /// answer of its own.
    Kill {
        /// The number of its request.
        exec: u64,
    },
    /// Start a program that runs on. Three descriptors come along, for its standard input, output and error.
    /// [`Answer::Done`] once it runs; then [`Answer::Ended`] with the other number.
    Start {
        /// As in [`Request::Exec`].
        argv: Vec<String>,
        /// As in [`Request::Exec`].
        cwd: String,
        /// As in [`Request::Exec`].
        env: Vec<(String, String)>,
        /// Whether its standard input is a terminal, which is to be its own.
        terminal: bool,
        /// The number of the answer that says that it has ended.
        ends: u64,
    },
    /// Send a signal to the process group of a program; KILL to all that came of it. [`Answer::Done`], also where it has
    /// ended.
    Signal {
        /// The number that its end will have.
        ends: u64,
        /// The signal.
        signal: i32,
    },
    /// Open a pseudoterminal. [`Answer::Terminal`], with the descriptors of both sides.
    Terminal {
        /// Its rows.
        rows: u16,
        /// Its columns.
        columns: u16,
    },
    /// Kill everything but the guest. [`Answer::Done`].
    KillAll,
    /// Open a file to read. [`Answer::Opened`], with the descriptor.
    Read(Place),
    /// Open a file to append to, made where it is missing. [`Answer::Opened`] or [`Answer::Made`], with the descriptor.
    Append(Place),
    /// Open a new file beside the one at the place. [`Answer::Opened`], with the descriptor.
    Create(Place),
    /// Put the new file where it belongs, or leave it where it was made. [`Answer::Done`].
    Commit {
        /// The number of its [`Request::Create`], or of the [`Request::Append`] that made it.
        create: u64,
    },
    /// Take the new file away again. No answer.
    Abort {
        /// The same number.
        create: u64,
    },
    /// Lists a directory from a position on, 0 at first: one page of it. [`Answer::Listed`].
    List(Place, i64),
    /// What is at a place. [`Answer::Found`].
    Stat(Place),
    /// Make a directory and those above it. [`Answer::Done`].
    MakeDir(Place),
    /// Make a symbolic link. [`Answer::Done`].
    MakeLink(Place, String),
    /// Set permission bits. [`Answer::Done`].
    SetMode(Place, u32),
    /// Take away a file, a link, or a directory with all in it. [`Answer::Done`].
    Remove(Place),
    /// Move the first to the second. [`Answer::Done`].
    Rename(Place, Place),
    /// Write a file or tree into the descriptor that comes along, as a stream. [`Answer::Done`].
    Pack {
        /// What to write.
        place: Place,
        /// What has this name is left out.
        except: String,
    },
    /// Make what such a stream holds, from the descriptor that comes along. [`Answer::Unpacked`].
    Unpack {
        /// Where it is to be; nothing is there.
        place: Place,
        /// How many bytes there is room for.
        most: u64,
    },
    /// Listen at an address of the sandbox's own network. [`Answer::Opened`], with the socket.
    Listen(SocketAddr),
    /// Connect to one. [`Answer::Opened`], with a socket that may still be on its way.
    Connect(SocketAddr),
}

/// What the guest answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    /// The sandbox is up. Said once, with the number 0.
    Ready,
    /// A program ended: its exit code, or 128 + the number of the signal that ended it.
    Ended(i32),
    /// The file or socket is open; its descriptor comes along.
    Opened,
    /// The same for a file that was not there before: [`Request::Commit`] or [`Request::Abort`] is to follow.
    Made,
    /// The terminal is open: the descriptor of who looks at it comes along, then that of programs.
    Terminal,
    /// It is done.
    Done,
    /// The stream is a file or tree now, with so many bytes in its files.
    Unpacked(u64),
    /// One page of a directory, and the position of the next one where there is more.
    Listed(Vec<Entry>, Option<i64>),
    /// What is at the place.
    Found(Stat),
    /// It could not be done.
    Failed(Fault),
}

/// Why something could not be done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fault {
    /// In one word.
    pub why: Code,
    /// In a sentence.
    pub text: String,
}

impl Fault {
    /// A fault.
    pub fn new(why: Code, text: impl Into<String>) -> Self {
        Fault { why, text: text.into() }
    }
}

/// A message as bytes, its length in front.
///
/// # Errors
/// Where it is longer than [`LONGEST`].
pub fn encode<T: Serialize>(number: u64, message: &T) -> io::Result<Vec<u8>> {
    let bytes = postcard::to_extend(&(number, message), vec![0; 4]).map_err(io::Error::other)?;
    encode_length(bytes)
}

fn encode_length(mut bytes: Vec<u8>) -> io::Result<Vec<u8>> {
    let length = bytes.len() - 4;
    let Some(prefix) = u32::try_from(length).ok().filter(|_| length <= LONGEST) else {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the message is too long"));
    };
    bytes[..4].copy_from_slice(&prefix.to_le_bytes());
    Ok(bytes)
}

/// The length a message says it has, without the four bytes that say it.
///
/// # Errors
/// Where there are no four bytes, or they name more than [`LONGEST`].
pub fn length(bytes: &[u8]) -> io::Result<usize> {
    let prefix: [u8; 4] = bytes.get(..4).and_then(|four| four.try_into().ok()).ok_or_else(broken)?;
    let length = u32::from_le_bytes(prefix) as usize;
    if length > LONGEST { Err(broken()) } else { Ok(length) }
}

/// The number and the message in the bytes behind the length.
///
/// # Errors
/// Where they are no message.
pub fn decode<T: DeserializeOwned>(body: &[u8]) -> io::Result<(u64, T)> {
    postcard::from_bytes(body).map_err(|_| broken())
}

fn broken() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the data on the socket is not a message")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back() {
        let request = Request::Remove(Place { root: "/".into(), path: "/a\nb".into() });
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
