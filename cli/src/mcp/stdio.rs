//! Serves a client on two streams without a blocking thread for each.

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

/// The client's input stream.
pub(crate) type Input = Box<dyn AsyncRead + Send + Unpin>;
/// The client's output stream.
pub(crate) type Output = Box<dyn AsyncWrite + Send + Unpin>;

/// The two streams of a client: sockets, which Node creates, or pipes.
#[derive(Debug)]
pub(crate) struct Streams {
    pub(crate) input: OwnedFd,
    pub(crate) output: OwnedFd,
}

/// The state of a client's connection.
#[derive(Debug)]
pub(crate) enum Begin {
    /// The client has sent nothing yet.
    Anew,
    /// Another server has already talked to the client.
    Midway {
        /// The input that the other server read but did not process.
        unread: Vec<u8>,
    },
}

impl Streams {
    /// Returns standard input and output if they are sockets or pipes. Returns `None` for terminals and files.
    pub(crate) fn standard() -> io::Result<Option<Self>> {
        let input = to_pollable(io::stdin().as_fd(), false)?;
        let output = to_pollable(io::stdout().as_fd(), true)?;
        Ok(input.zip(output).map(|(input, output)| Streams { input, output }))
    }

    /// Opens the streams.
    pub(crate) fn open(self) -> io::Result<(Input, Output)> {
        let input: Input = if is_pipe(&self.input)? {
            Box::new(pipe::Receiver::from_owned_fd(self.input)?)
        } else {
            Box::new(into_socket(self.input)?)
        };
        let output: Output = if is_pipe(&self.output)? {
            Box::new(pipe::Sender::from_owned_fd(self.output)?)
        } else {
            Box::new(into_socket(self.output)?)
        };
        Ok((input, output))
    }
}

/// Serves a client until it disconnects.
pub(crate) async fn serve<B: Backend>(
    server: Server<B>,
    streams: Streams,
    begin: Begin,
) -> Result<(), String> {
    let (input, output) = streams.open().map_err(|error| format!("cannot read from the client: {error}"))?;
    on(server, input, output, begin).await
}

/// Serves a client on any kind of standard input and output.
pub(crate) async fn serve_blocking<B: Backend>(server: Server<B>) -> Result<(), String> {
    on(server, tokio::io::stdin(), tokio::io::stdout(), Begin::Anew).await
}

/// Serves a client on open streams.
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
            // The client only probed the connection.
            Err(ServerInitializeError::ConnectionClosed(_)) => return Ok(()),
            Err(error) => return Err(error.to_string()),
        }
    };
    running.waiting().await.map(drop).map_err(|error| error.to_string())
}

/// Returns a stream that can be polled, or `None` if the descriptor is neither a socket nor a pipe.
fn to_pollable(stream: BorrowedFd, write: bool) -> io::Result<Option<OwnedFd>> {
    Ok(match file_type(stream)? {
        FileType::Socket => Some(stream.try_clone_to_owned()?),
        // Another user's pipe cannot be reopened.
        FileType::Fifo => reopen_pipe(stream, write).ok(),
        _ => None,
    })
}

fn is_pipe(stream: &OwnedFd) -> io::Result<bool> {
    Ok(file_type(stream.as_fd())? == FileType::Fifo)
}

fn file_type(stream: BorrowedFd) -> io::Result<FileType> {
    Ok(FileType::from_raw_mode(rustix::fs::fstat(stream)?.st_mode))
}

/// Reopens a pipe in non-blocking mode, without affecting other holders of this end.
fn reopen_pipe(stream: BorrowedFd, write: bool) -> io::Result<OwnedFd> {
    let mut options = OpenOptions::new();
    options.read(!write).write(write).custom_flags(OFlags::NONBLOCK.bits().cast_signed());
    Ok(options.open(format!("/proc/self/fd/{}", stream.as_raw_fd()))?.into())
}

/// Makes a socket non-blocking. This affects its other holders, but none of them is a program that koze starts.
fn into_socket(stream: OwnedFd) -> io::Result<UnixStream> {
    let stream = StdStream::from(stream);
    stream.set_nonblocking(true)?;
    UnixStream::from_std(stream)
}
