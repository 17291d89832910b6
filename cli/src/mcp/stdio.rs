//! A server on two streams, without a thread that waits for each.

use std::fs::OpenOptions;
use std::io::{self, Cursor};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream as StdStream;

use rmcp::ServiceExt as _;
use rmcp::service::{ServerInitializeError, serve_directly};
use rustix::fs::{FileType, OFlags};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite};
use tokio::net::UnixStream;
use tokio::net::unix::pipe;

use super::server::{Backend, Server};
use super::transport::Lines;

/// What a client says.
pub(crate) type Input = Box<dyn AsyncRead + Send + Unpin>;
/// Where it hears the answer.
pub(crate) type Output = Box<dyn AsyncWrite + Send + Unpin>;

/// The two streams of a client: sockets, as Node programs make them, or pipes.
#[derive(Debug)]
pub(crate) struct Streams {
    pub(crate) input: OwnedFd,
    pub(crate) output: OwnedFd,
}

/// How far a client is.
#[derive(Debug)]
pub(crate) enum Begin {
    /// It has said nothing so far.
    Anew,
    /// Another server has talked to it before.
    Midway {
        /// What that one has read, and not served.
        unread: Vec<u8>,
    },
}

impl Streams {
    /// Standard input and output, where they are sockets or pipes. A terminal, or a file, is neither.
    pub(crate) fn standard() -> io::Result<Option<Self>> {
        let input = usable(io::stdin().as_fd(), false)?;
        let output = usable(io::stdout().as_fd(), true)?;
        Ok(input.zip(output).map(|(input, output)| Streams { input, output }))
    }

    /// What the client says, and where it hears the answer.
    pub(crate) fn open(self) -> io::Result<(Input, Output)> {
        let input: Input = if is_pipe(&self.input)? {
            Box::new(pipe::Receiver::from_owned_fd(self.input)?)
        } else {
            Box::new(socket(self.input)?)
        };
        let output: Output = if is_pipe(&self.output)? {
            Box::new(pipe::Sender::from_owned_fd(self.output)?)
        } else {
            Box::new(socket(self.output)?)
        };
        Ok((input, output))
    }
}

/// Serves a client until it ends.
pub(crate) async fn serve<B: Backend>(
    server: Server<B>,
    streams: Streams,
    begin: Begin,
) -> Result<(), String> {
    let (input, output) = streams.open().map_err(|error| format!("cannot read from the client: {error}"))?;
    on(server, input, output, begin).await
}

/// The same on whatever standard input and output are.
pub(crate) async fn serve_blocking<B: Backend>(server: Server<B>) -> Result<(), String> {
    on(server, tokio::io::stdin(), tokio::io::stdout(), Begin::Anew).await
}

/// The same on streams that are open already.
pub(crate) async fn on<B: Backend>(
    server: Server<B>,
    input: impl AsyncRead + Send + Unpin + 'static,
    output: impl AsyncWrite + Send + Unpin + 'static,
    begin: Begin,
) -> Result<(), String> {
    let midway = matches!(begin, Begin::Midway { .. });
    let unread = if let Begin::Midway { unread } = begin { unread } else { Vec::new() };
    let transport = Lines::new(Cursor::new(unread).chain(input), output);
    let running = if midway {
        serve_directly(server, transport, None)
    } else {
        match server.serve(transport).await {
            Ok(running) => running,
            // It only looked whether somebody is here.
            Err(ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
            Err(error) => return Err(error.to_string()),
        }
    };
    running.waiting().await.map(drop).map_err(|error| error.to_string())
}

/// A stream that this program was given, as one that can be waited for; nothing where it is none.
fn usable(stream: BorrowedFd, write: bool) -> io::Result<Option<OwnedFd>> {
    Ok(match file_type(stream)? {
        FileType::Socket => Some(stream.try_clone_to_owned()?),
        // Another user's cannot be opened once more.
        FileType::Fifo => reopened(stream, write).ok(),
        _ => None,
    })
}

fn is_pipe(stream: &OwnedFd) -> io::Result<bool> {
    Ok(file_type(stream.as_fd())? == FileType::Fifo)
}

fn file_type(stream: BorrowedFd) -> io::Result<FileType> {
    Ok(FileType::from_raw_mode(rustix::fs::fstat(stream)?.st_mode))
}

/// A pipe once more: one that does not block, while it goes on blocking for whoever else has this end of it.
fn reopened(stream: BorrowedFd, write: bool) -> io::Result<OwnedFd> {
    let mut options = OpenOptions::new();
    options.read(!write).write(write).custom_flags(OFlags::NONBLOCK.bits().cast_signed());
    Ok(options.open(format!("/proc/self/fd/{}", stream.as_raw_fd()))?.into())
}

/// A socket. It no longer blocks from here on, for whoever else has this end of it, too: no program that koze starts.
fn socket(stream: OwnedFd) -> io::Result<UnixStream> {
    let stream = StdStream::from(stream);
    stream.set_nonblocking(true)?;
    UnixStream::from_std(stream)
}
